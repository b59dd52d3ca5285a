/* The ceiling for any simulator outside PX4: it answers each lockstep step at once with constant, slightly
 * noisy sensors and no physics, so PX4's own time is all that is left.  Only scripts/bench uses it.
 *   cc -O2 -o null_simulator null_simulator.c && ./null_simulator PORT SECONDS
 * Prints steps and seconds from the first answer on.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint8_t sequence;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float jitter(float value, float width) {
  return value + width * ((float)(rand() % 2001) / 1000.0f - 1.0f);
}

static uint16_t accumulate(uint16_t crc, uint8_t byte) {
  for (int bit = 0; bit < 8; bit++, byte >>= 1)
    crc = (uint16_t)((crc >> 1) ^ (((crc ^ byte) & 1) ? 0x8408 : 0));
  return crc;
}

/* Frames a payload as MAVLink 2; returns the frame's length. */
static int frame(uint8_t *out, uint8_t message, uint8_t extra, const void *payload, int length) {
  const uint8_t *bytes = payload;
  while (length > 1 && bytes[length - 1] == 0) length--;
  const uint8_t header[10] = {0xFD, (uint8_t)length, 0, 0, sequence++, 1, 1, message, 0, 0};
  memcpy(out, header, sizeof header);
  memcpy(out + 10, bytes, (size_t)length);
  uint16_t crc = 0xFFFF;
  for (int i = 1; i < 10 + length; i++) crc = accumulate(crc, out[i]);
  crc = accumulate(crc, extra);
  out[10 + length] = (uint8_t)crc;
  out[11 + length] = (uint8_t)(crc >> 8);
  return length + 12;
}

static int step_frames(uint8_t *out, uint64_t time, long step) {
  struct __attribute__((packed)) {
    uint64_t time;
    float values[13];
    uint32_t fields;
    uint8_t id;
  } sensor = {.time = time, .fields = step % 5 ? 0x3F : 0x1FFF};
  const float mean[13] = {0, 0, -9.807f, 0, 0, 0, 0.215f, 0.013f, 0.432f, 955.98f, 0, 488, 12};
  const float width[13] = {.03f, .03f, .03f, .005f, .005f, .005f, .0005f, .0005f, .0005f, .01f, 0, 0, 0};
  for (int i = 0; i < 13; i++) sensor.values[i] = jitter(mean[i], width[i]);
  int length = frame(out, 107, 108, &sensor, sizeof sensor);
  if (step % 50 == 0) {
    struct __attribute__((packed)) {
      uint64_t time;
      int32_t place[3];
      uint16_t accuracy[2];
      int16_t velocity[4];
      uint16_t course;
      uint8_t fix, satellites, id;
      uint16_t yaw;
    } gps = {.time = time,
             .place = {473977420, 85455940, 488000},
             .accuracy = {100, 100},
             .course = 65535,
             .fix = 3,
             .satellites = 10};
    length += frame(out + length, 113, 124, &gps, sizeof gps);
  }
  return length;
}

/* Counts the answers in what was received and keeps what is left of a frame. */
static int answers(uint8_t *buffer, int *have) {
  int found = 0, at = 0;
  while (*have - at >= 12) {
    if (buffer[at] != 0xFD) {
      at++;
      continue;
    }
    const int length = buffer[at + 1] + 12;
    if (*have - at < length) break;
    found += buffer[at + 7] == 93;
    at += length;
  }
  memmove(buffer, buffer + at, (size_t)(*have -= at));
  return found;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)atoi(argv[1])),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const double duration = atof(argv[2]);
  const int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (const struct sockaddr *)&address, sizeof address) || listen(listener, 1)) {
    perror("null_simulator");
    return 1;
  }
  const int link = accept(listener, NULL, NULL);
  setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  uint8_t out[512], in[8192];
  int have = 0;
  long steps = 0, first = 0;
  double begin = 0;
  for (uint64_t time = 1000000000; !begin || seconds() - begin < duration;) {
    time += 4000;
    const int length = step_frames(out, time, ++steps);
    if (send(link, out, (size_t)length, MSG_NOSIGNAL) != length) return 1;
    for (int answered = 0; !answered;) {
      struct pollfd ready = {.fd = link, .events = POLLIN};
      if (poll(&ready, 1, begin ? 2000 : 4) == 0) break;
      const ssize_t count = recv(link, in + have, sizeof in - (size_t)have, 0);
      if (count <= 0) return 1;
      have += (int)count;
      answered = answers(in, &have);
      if (answered && !begin) {
        begin = seconds();
        first = steps;
      }
    }
  }
  printf("%ld %.6f\n", steps - first, seconds() - begin);
  return 0;
}

/* The ceiling for any simulator outside PX4: it plays recorded frames in a circle, each lockstep step as soon as
 * the one before is answered, and computes nothing, so PX4's own time is all that is left.  Only scripts/bench
 * uses it.
 *   cc -O2 -o null_simulator null_simulator.c && ./null_simulator PORT FRAMES
 * FRAMES: MAVLink 2 frames of whole steps, each of which begins with the HIL_SENSOR of sensor 0; simulated time
 * goes on from lap to lap.  Prints answered steps and monotonic seconds from the first answer on, four times a
 * second, until it is ended.
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

enum { STEP = 4000, HIL_ACTUATOR_CONTROLS = 93, HIL_SENSOR = 107, DISTANCE_SENSOR = 132 };

/* Message and CRC_EXTRA of what may be played; all but DISTANCE_SENSOR (ms, 32 bits) begin with 64 bits of us. */
static const uint8_t extras[][2] = {{107, 108}, {113, 124}, {115, 4}, {114, 237}, {132, 85}};
static uint16_t table[256];

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fill_table(void) {
  for (int i = 0; i < 256; i++) {
    uint16_t crc = (uint16_t)i;
    for (int bit = 0; bit < 8; bit++) crc = (uint16_t)((crc >> 1) ^ ((crc & 1) ? 0x8408 : 0));
    table[i] = crc;
  }
}

/* Puts time and sequence into a frame; returns its length, 0 for a frame it does not know. */
static int renew(uint8_t *frame, uint64_t later) {
  static uint8_t sequence;
  const int length = 10 + frame[1];
  frame[4] = sequence++;
  uint16_t crc = 0xFFFF;
  int extra = -1;
  for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
    if (extras[i][0] == frame[7]) extra = extras[i][1];
  if (extra < 0) return 0;
  if (frame[7] == DISTANCE_SENSOR) {
    uint32_t time;
    memcpy(&time, frame + 10, sizeof time);
    time += (uint32_t)(later / 1000);
    memcpy(frame + 10, &time, sizeof time);
  } else {
    uint64_t time;
    memcpy(&time, frame + 10, sizeof time);
    time += later;
    memcpy(frame + 10, &time, sizeof time);
  }
  for (int i = 1; i < length; i++) crc = (uint16_t)((crc >> 8) ^ table[(crc ^ frame[i]) & 255]);
  crc = (uint16_t)((crc >> 8) ^ table[(crc ^ extra) & 255]);
  frame[length] = (uint8_t)crc;
  frame[length + 1] = (uint8_t)(crc >> 8);
  return length + 2;
}

static int begins_step(const uint8_t *frame) {
  return frame[7] == HIL_SENSOR && (frame[1] < 65 || frame[10 + 64] == 0);
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
    found += buffer[at + 7] == HIL_ACTUATOR_CONTROLS;
    at += length;
  }
  memmove(buffer, buffer + at, (size_t)(*have -= at));
  return found;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  static uint8_t frames[1 << 22], out[4096], in[8192];
  FILE *file = fopen(argv[2], "rb");
  if (!file) {
    perror(argv[2]);
    return 1;
  }
  const long size = (long)fread(frames, 1, sizeof frames, file);
  fclose(file);
  long lap = 0;
  for (long at = 0; at < size; at += frames[at + 1] + 12) lap += begins_step(frames + at);
  if (lap == 0 || size == sizeof frames) return 2;
  fill_table();

  const struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)atoi(argv[1])),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (const struct sockaddr *)&address, sizeof address) || listen(listener, 1)) {
    perror("null_simulator");
    return 1;
  }
  const int link = accept(listener, NULL, NULL);
  setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  int have = 0;
  long steps = 0, answered_steps = 0, at = 0;
  double told = 0;
  for (;;) {
    const uint64_t later = (uint64_t)(steps / lap * lap * STEP);
    int length = 0;
    do {
      const int whole = frames[at + 1] + 12;
      if (length + whole > (int)sizeof out) return 2;
      memcpy(out + length, frames + at, (size_t)whole);
      if (renew(out + length, later) != whole) return 2;
      length += whole;
      at = at + whole < size ? at + whole : 0;
    } while (!begins_step(frames + at));
    steps++;
    if (send(link, out, (size_t)length, MSG_NOSIGNAL) != length) return 1;
    for (int answered = 0; !answered;) {
      struct pollfd ready = {.fd = link, .events = POLLIN};
      if (poll(&ready, 1, answered_steps ? 2000 : 4) == 0) break;
      const ssize_t count = recv(link, in + have, sizeof in - (size_t)have, 0);
      if (count <= 0) return 1;
      have += (int)count;
      answered = answers(in, &have);
      answered_steps += answered > 0;
    }
    const double now = seconds();
    if (answered_steps && now - told >= 0.25) {
      printf("%ld %.6f\n", answered_steps, now);
      fflush(stdout);
      told = now;
    }
  }
}

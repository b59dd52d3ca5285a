/* The ceiling for any simulator outside PX4: it plays recorded frames in a circle, each lockstep step as soon as
 * the one before is answered, and computes nothing, so PX4's own time is all that is left.  With several
 * vehicles it is the ceiling for one world: a step begins when all of them have answered.  Only scripts/bench
 * uses it.
 *   cc -O2 -o null_simulator null_simulator.c && ./null_simulator PORT COUNT FRAMES
 * COUNT: vehicles, on PORT, PORT + 1 and so on.  FRAMES: MAVLink 2 frames of whole steps, each of which begins
 * with the HIL_SENSOR of sensor 0; simulated time goes on from lap to lap.  Prints answered steps and monotonic
 * seconds from the step on that all have answered for the first time, four times a second, until it is ended.
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

struct link {
  int fd, have;
  uint8_t in[8192];
};

static int listen_on(int port) {
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (const struct sockaddr *)&address, sizeof address) || listen(listener, 1)) {
    perror("null_simulator");
    exit(1);
  }
  return listener;
}

/* Waits for an answer, at most so many ms; whether it came.  Nobody waits for a vehicle that has gone. */
static int await_answer(struct link *link, int timeout) {
  while (link->fd >= 0) {
    struct pollfd ready = {.fd = link->fd, .events = POLLIN};
    if (poll(&ready, 1, timeout) == 0) return 0;
    const ssize_t count = recv(link->fd, link->in + link->have, sizeof link->in - (size_t)link->have, 0);
    if (count <= 0) {
      close(link->fd);
      link->fd = -1;
      break;
    }
    link->have += (int)count;
    if (answers(link->in, &link->have)) return 1;
  }
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  static uint8_t frames[1 << 22], out[4096];
  static struct link links[64];
  static int listeners[64];
  const int count = atoi(argv[2]), yes = 1;
  if (count < 1 || count > 64) return 2;
  FILE *file = fopen(argv[3], "rb");
  if (!file) {
    perror(argv[3]);
    return 1;
  }
  const long size = (long)fread(frames, 1, sizeof frames, file);
  fclose(file);
  long lap = 0;
  for (long at = 0; at < size; at += frames[at + 1] + 12) lap += begins_step(frames + at);
  if (lap == 0 || size == sizeof frames) return 2;
  fill_table();
  for (int i = 0; i < count; i++) listeners[i] = listen_on(atoi(argv[1]) + i);
  for (int i = 0; i < count; i++) {
    links[i].fd = accept(listeners[i], NULL, NULL);
    setsockopt(links[i].fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
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
    int left = 0, answered = 0;
    for (int i = 0; i < count; i++)
      left += links[i].fd >= 0 && send(links[i].fd, out, (size_t)length, MSG_NOSIGNAL) == length;
    if (left == 0) return 0;
    for (int i = count - 1; i >= 0; i--) answered += await_answer(&links[i], answered_steps ? 2000 : 4);
    answered_steps += answered == count;
    const double now = seconds();
    if (answered_steps && now - told >= 0.25) {
      printf("%ld %.6f\n", answered_steps, now);
      fflush(stdout);
      told = now;
    }
  }
}

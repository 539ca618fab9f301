// Loaded in front of the system's library, lets a program begin as many threads as TESSERA_THREADS
// says, and no more: what a limit of processes does to a user who is not root.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int (*create_function)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*begin)(void*),
                   void* argument) {
  static atomic_int begun;
  const char* const allowed = getenv("TESSERA_THREADS");
  if (allowed != NULL && atomic_fetch_add(&begun, 1) >= atoi(allowed)) return EAGAIN;
  return ((create_function)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, begin, argument);
}

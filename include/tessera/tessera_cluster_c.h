/* The processors that a tenant has in a cluster, in C (tessera/cluster.h). What tessera_c.h says at its head of handles, errors,
 * options and threads holds here.
 *
 *   tessera_cluster_connect ─► tessera_cluster_acquire ─► tessera_allocation_device ─► a device's `cluster`
 *     ─► tessera_cluster_resize ─► tessera_cluster_free
 */
#ifndef TESSERA_TESSERA_CLUSTER_C_H
#define TESSERA_TESSERA_CLUSTER_C_H
#pragma once

#include "tessera/tessera_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): the names and forms of C */

/* Masters of a cluster, as one tenant. */
typedef struct tessera_cluster tessera_cluster;
/* An allocation as it was when it was asked for. */
typedef struct tessera_allocation tessera_allocation;
/* The tenant's allocations as they were when they were asked for. */
typedef struct tessera_allocation_list tessera_allocation_list;

/* What a tenant asks for. */
typedef struct tessera_cluster_request {
  size_t size;
  const char* name;     /* NULL: made up */
  int cores;            /* 0: one, or of several cards all */
  int cards;            /* as a whole, of one or several machines; 0: a part of one */
  const char* arch;     /* of the cards; NULL: any */
  const char* node;     /* NULL: any */
  int64_t memory_bytes; /* of each group in which it has a core; 0: a core's part */
  int64_t weight;       /* of its channels, 1 to 16; 0: 1 */
} tessera_cluster_request;

/* What an allocation has. */
typedef struct tessera_allocation_status {
  size_t size;
  int cores;  /* that it has, or waits for */
  int places; /* cards on which it has some; 0: it waits for room */
  int64_t memory_bytes, weight;
  int64_t epoch; /* larger with each node that it comes to */
} tessera_allocation_status;

/* "cluster:HOST:PORT[?tenant=T&token_file=F...]"; asks nobody yet. */
tessera_error* tessera_cluster_connect(const char* address, tessera_cluster** cluster);
void tessera_cluster_release(tessera_cluster* cluster);

/* Until somebody gives it back, also behind the end of this process. `request` may be NULL. */
tessera_error* tessera_cluster_acquire(const tessera_cluster* cluster,
                                       const tessera_cluster_request* request,
                                       tessera_allocation** allocation);
/* Other cores, 1 or more, while it is in use; `allocation` may be NULL. */
tessera_error* tessera_cluster_resize(const tessera_cluster* cluster, const char* name, int cores,
                                      tessera_allocation** allocation);
/* Gives it back; whoever uses it gets errors from now on. */
tessera_error* tessera_cluster_free(const tessera_cluster* cluster, const char* name);
/* The tenant's own, by name. */
tessera_error* tessera_cluster_list(const tessera_cluster* cluster, tessera_allocation_list** list);
size_t tessera_allocation_list_count(const tessera_allocation_list* list);
/* A copy; NULL beyond the last. */
tessera_error* tessera_allocation_list_get(const tessera_allocation_list* list, size_t index,
                                           tessera_allocation** allocation);
void tessera_allocation_list_release(tessera_allocation_list* list);

/* Texts live as long as the allocation. NULL of NULL. */
const char* tessera_allocation_name(const tessera_allocation* allocation);
/* "placed", "waits" or "unreachable". */
const char* tessera_allocation_state(const tessera_allocation* allocation);
/* As the `cluster` of a device or of a session's options. */
const char* tessera_allocation_device(const tessera_allocation* allocation);
/* Of the card at that place; NULL beyond the last. */
const char* tessera_allocation_node(const tessera_allocation* allocation, size_t place);
tessera_error* tessera_allocation_status_get(const tessera_allocation* allocation,
                                             tessera_allocation_status* status);
void tessera_allocation_release(tessera_allocation* allocation);

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#ifdef __cplusplus
}
#endif

#endif

/** How Node and the system's allocator are told to keep the memory of the platform small. `npm start` and `bench/` use the same. */

/**
 * A young generation that stays small, and an old one that is collected when it has grown by two fifths: memory comes
 * back after a burst, and does not grow with the requests that were answered, at no cost that could be measured. What is
 * alive in so small a young generation is copied by one thread in less time than several need to meet: on two cores that
 * PostgreSQL uses as well, each collection took 1.7 ms instead of 2.8, and half of the time of the helping threads.
 */
export const platformFlags = [
  '--max-semi-space-size=8',
  '--heap-growing-percent=40',
  '--initial-old-space-size=48',
  '--no-parallel-scavenge',
];

/** glibc keeps a heap for each thread that allocates, and gives little of it back: two serve as well, in 25 MB less. */
export const memoryEnvironment = { MALLOC_ARENA_MAX: '2' };

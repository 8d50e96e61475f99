/** Identifiers: UUID version 7 (RFC 9562), made here so that every PostgreSQL version can be used. */
import { randomFillSync } from 'node:crypto';

/** Bytes of randomness per id: 2 seed the counter of a new millisecond, 8 fill `rand_b`. */
const RANDOM_BYTES = 10;
const pool = Buffer.alloc(RANDOM_BYTES * 256);
let poolOffset = pool.length;

let lastMs = 0;
/** The 12 bits of `rand_a`, counted up within a millisecond (RFC 9562 section 6.2, method 1). */
let counter = 0;

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const hexAt = (index: number): string => hex[pool[index] ?? 0] ?? '';

/** Moves the clock or the counter forward, so that ids of this process only grow, also when the clock steps back. */
function tick(seed: number): void {
  const now = Date.now();
  if (now > lastMs) {
    lastMs = now;
    // The highest bit stays free: at least 2,048 ids fit into one millisecond.
    counter = seed & 0x7ff;
  } else if (counter === 0xfff) {
    lastMs += 1;
    counter = seed & 0x7ff;
  } else {
    counter += 1;
  }
}

/** A new id, larger (as text and as uuid) than every earlier one of this process. */
export function newId(): string {
  if (poolOffset === pool.length) {
    randomFillSync(pool);
    poolOffset = 0;
  }
  const at = poolOffset;
  poolOffset += RANDOM_BYTES;
  tick(((pool[at] ?? 0) << 8) | (pool[at + 1] ?? 0));
  pool[at + 2] = ((pool[at + 2] ?? 0) & 0x3f) | 0x80;
  const time = lastMs.toString(16).padStart(12, '0');
  const sequence = counter.toString(16).padStart(3, '0');
  const variant = hexAt(at + 2) + hexAt(at + 3);
  const node =
    hexAt(at + 4) + hexAt(at + 5) + hexAt(at + 6) + hexAt(at + 7) + hexAt(at + 8) + hexAt(at + 9);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${sequence}-${variant}-${node}`;
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** True for a UUID of any version in its canonical form. */
export const isId = (text: unknown): text is string => typeof text === 'string' && uuid.test(text);

/** How far two vectors are from each other, by each similarity. */
import type { Similarity } from '../model.ts';

/** From a vector that begins at a place of the memory to the one that is searched for. */
type Distance = (vectors: Float32Array, at: number, query: Float32Array) => number;

/** Four sums at a time, so that the processor does not wait for one. */
const dot: Distance = (vectors, at, query) => {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  const length = query.length;
  let i = 0;
  for (; i + 3 < length; i += 4) {
    a += (vectors[at + i] as number) * (query[i] as number);
    b += (vectors[at + i + 1] as number) * (query[i + 1] as number);
    c += (vectors[at + i + 2] as number) * (query[i + 2] as number);
    d += (vectors[at + i + 3] as number) * (query[i + 3] as number);
  }
  for (; i < length; i++) a += (vectors[at + i] as number) * (query[i] as number);
  return a + b + c + d;
};

const squares: Distance = (vectors, at, query) => {
  let sum = 0;
  for (let i = 0; i < query.length; i++) {
    const difference = (vectors[at + i] as number) - (query[i] as number);
    sum += difference * difference;
  }
  return sum;
};

/** Smaller is nearer. Vectors that are compared by cosine have length 1. */
export const distances: Readonly<Record<Similarity, Distance>> = {
  cosine: (vectors, at, query) => 1 - dot(vectors, at, query),
  euclidean: (vectors, at, query) => Math.sqrt(squares(vectors, at, query)),
  dotProduct: (vectors, at, query) => -dot(vectors, at, query),
};

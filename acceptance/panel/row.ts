/** One call of the panel, and the shapes that it reads. */
import { expect } from 'vitest';
import type { Json } from '../../test/support/api.ts';

export const text: unknown = expect.any(String);
export const number: unknown = expect.any(Number);
export const flag: unknown = expect.any(Boolean);
export const list: unknown = expect.any(Array);
export const object: unknown = expect.any(Object);

/** What earlier rows learned: ids and whole objects. */
export type Seen = Record<string, Json>;

export interface Row {
  /** Method and path; `{name}` is what an earlier row kept. */
  readonly call: string;
  readonly body?: unknown;
  /** What the panel reads; objects may have more. */
  readonly reads?: unknown;
  /** What later rows need of the answer. */
  readonly keep?: (body: Json) => Seen;
}

/** At least one of the list has what the panel reads. */
export const some = (shape: object): unknown =>
  expect.arrayContaining([expect.objectContaining(shape)]);

export const password = 'Panel-Password-77';
export const cors = {
  enabled: flag,
  origin: text,
  methods: text,
  allowedHeaders: text,
  exposedHeaders: text,
  credentials: flag,
  maxAge: number,
};
export const transports = { rest: flag, graphql: flag, sockets: flag };

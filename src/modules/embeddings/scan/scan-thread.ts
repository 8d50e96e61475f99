/** The thread that holds vectors and searches through them. */
import { giveWay, type Serve, serveCalls } from '../../../kernel/threads/serve-calls.ts';
import type { Similarity } from '../model.ts';
import {
  createVectorTable,
  type SearchOptions,
  type TableChange,
  type VectorTable,
} from './table.ts';

/** Somebody waits, but what needs no search comes first: an index takes half a minute of 100,000 vectors. */
const PRIORITY = 5;

giveWay(PRIORITY);

export interface ApplyInput extends Omit<TableChange, 'vectors'> {
  readonly table: string;
  /** Hexadecimal. */
  readonly vectors: string;
  readonly dimensions: number;
  readonly similarity: Similarity;
}

export interface NearestInput extends SearchOptions {
  readonly table: string;
  readonly query: Float32Array;
}

export interface GrowInput {
  readonly table: string;
  readonly milliseconds: number;
}

export interface RecallInput {
  readonly table: string;
  /** Which passage is searched for, 0 to 1. */
  readonly at: number;
}

const tables = new Map<string, VectorTable>();

const apply: Serve = (input) => {
  const { table: name, dimensions, similarity, vectors: text, ...change } = input as ApplyInput;
  const vectors = new Float32Array(text.length / 8);
  Buffer.from(vectors.buffer).write(text, 'hex');
  let table = tables.get(name);
  if (!table) {
    table = createVectorTable(dimensions, similarity);
    tables.set(name, table);
  }
  table.apply({ ...change, vectors });
  return { result: table.facts() };
};

const nearest: Serve = (input) => {
  const { table, query, ...options } = input as NearestInput;
  return { result: tables.get(table)?.nearest(query, options) };
};

const grow: Serve = async (input) => {
  const { table, milliseconds } = input as GrowInput;
  return { result: await tables.get(table)?.grow(milliseconds) };
};

const recall: Serve = (input) => {
  const { table, at } = input as RecallInput;
  return { result: tables.get(table)?.recall(at) };
};

const drop: Serve = (input) => ({ result: tables.delete(String(input)) });

serveCalls(
  new Map([
    ['apply', apply],
    ['nearest', nearest],
    ['grow', grow],
    ['recall', recall],
    ['drop', drop],
  ]),
);

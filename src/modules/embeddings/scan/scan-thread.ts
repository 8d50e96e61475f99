/** The thread that holds vectors and searches through them. */
import { type Serve, serveCalls } from '../../../kernel/threads/serve-calls.ts';
import type { Similarity } from '../model.ts';
import { createVectorTable, type TableChange, type VectorTable } from './table.ts';

export interface ApplyInput extends TableChange {
  readonly table: string;
  readonly dimensions: number;
  readonly similarity: Similarity;
}

export interface NearestInput {
  readonly table: string;
  readonly query: Float32Array;
  readonly k: number;
  readonly within?: readonly string[];
}

const tables = new Map<string, VectorTable>();

const apply: Serve = (input) => {
  const { table: name, dimensions, similarity, ...change } = input as ApplyInput;
  let table = tables.get(name);
  if (!table) {
    table = createVectorTable(dimensions, similarity);
    tables.set(name, table);
  }
  table.apply(change);
  return { result: table.passages };
};

const nearest: Serve = (input) => {
  const { table, query, k, within } = input as NearestInput;
  return { result: tables.get(table)?.nearest(query, k, within) };
};

const drop: Serve = (input) => ({ result: tables.delete(String(input)) });

serveCalls(
  new Map([
    ['apply', apply],
    ['nearest', nearest],
    ['drop', drop],
  ]),
);

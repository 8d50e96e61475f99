/** Rows on their way in. */
import type { RecordInput } from '../../../../data/records/store.ts';
import type { Problem } from '../../../../kernel/errors.ts';

/** The two written forms of rows. */
export const formats = ['csv', 'jsonl'] as const;
export type Format = (typeof formats)[number];

export const contentTypes = {
  csv: 'text/csv; charset=utf-8',
  jsonl: 'application/jsonl; charset=utf-8',
} as const;

/** Media types that uploads may have, and the form that each says it is; `undefined`: it does not say. */
export const uploadTypes: ReadonlyMap<string, Format | undefined> = new Map([
  ['text/csv', 'csv'],
  ['application/jsonl', 'jsonl'],
  ['application/x-ndjson', 'jsonl'],
  ['application/octet-stream', undefined],
]);

export const delimiters = { comma: ',', semicolon: ';', tab: '\t' } as const;
export type Delimiter = keyof typeof delimiters;

/** Bytes of one row. */
export const MAX_ROW_BYTES = 8_388_608;

/** One row of the upload: what it says, or why it cannot be read. */
export interface ReadRow {
  /** Line of the upload, from 1. Of a row over several lines, the last. */
  readonly line: number;
  /** Rough size, for batches. */
  readonly bytes: number;
  readonly input?: RecordInput;
  /** Paths are names of fields; empty: the row as a whole. */
  readonly problems?: readonly Problem[];
}

export interface LoadRow extends ReadRow {
  readonly input: RecordInput;
}

export const isLoadable = (row: ReadRow): row is LoadRow => row.input !== undefined;

const MAX_ROWS = 500;
const MAX_BYTES = 1_048_576;

/** Rows in batches that fit into memory and into a statement. A batch holds an id once at most. */
export async function* batched(rows: AsyncIterable<ReadRow>): AsyncGenerator<ReadRow[]> {
  let batch: ReadRow[] = [];
  let bytes = 0;
  let ids = new Set<string>();
  for await (const row of rows) {
    const id = idOf(row);
    if (batch.length >= MAX_ROWS || bytes >= MAX_BYTES || (id !== undefined && ids.has(id))) {
      yield batch;
      [batch, bytes, ids] = [[], 0, new Set()];
    }
    batch.push(row);
    bytes += row.bytes;
    if (id !== undefined) ids.add(id);
  }
  if (batch.length > 0) yield batch;
}

const idOf = ({ input }: ReadRow): string | undefined =>
  typeof input?._id === 'string' ? input._id.toLowerCase() : undefined;

/** The upload is no text that anybody could read. */
export class NotUtf8Error extends Error {}

/** Of problems that end the reading. */
export const notRead = '. What follows was not read';

export const notUtf8: Problem = {
  path: '',
  rule: 'encoding',
  message: `holds bytes that are not UTF-8${notRead}`,
};

/** Text of the upload. Throws `NotUtf8Error`, when it has given out what stands in front of the problem. */
export async function* textOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = newDecoder();
  let begun: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const text = decoded(decoder, chunk);
    yield text ?? textBeforeProblem(Buffer.concat([begun, chunk]));
    if (text === undefined) throw new NotUtf8Error('The text is not UTF-8');
    begun = begunCharacter(Buffer.concat([begun, chunk.subarray(-3)]));
  }
  if (decoded(decoder) === undefined) throw new NotUtf8Error('The text ends within a character');
}

type Decoder = InstanceType<typeof TextDecoder>;

const newDecoder = (): Decoder => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** `undefined`: it is not UTF-8. A character that goes on in the next piece comes with that. */
function decoded(decoder: Decoder, piece?: Buffer): string | undefined {
  try {
    return piece ? decoder.decode(piece, { stream: true }) : decoder.decode();
  } catch {
    return undefined;
  }
}

/** The bytes at the end that are not yet a character. */
function begunCharacter(bytes: Buffer): Buffer {
  const last = bytes.subarray(-3);
  const lead = last.findLastIndex((byte) => byte >= 0xc0);
  if (lead === -1) return last.subarray(last.length);
  const [byte = 0] = last.subarray(lead);
  const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
  return last.length - lead < length ? last.subarray(lead) : last.subarray(last.length);
}

/** The longest part that can be read. The bytes begin with a character. */
function textBeforeProblem(bytes: Buffer): string {
  let [readable, invalid] = [0, bytes.length];
  while (invalid - readable > 1) {
    const middle = (readable + invalid) >> 1;
    if (decoded(newDecoder(), bytes.subarray(0, middle)) === undefined) invalid = middle;
    else readable = middle;
  }
  return decoded(newDecoder(), bytes.subarray(0, readable)) ?? '';
}

/**
 * Very many ids as values of a statement that asks about few of them. As an array they would be read one by one, and put
 * into a hash table, for each statement; here they are bytes that PostgreSQL takes as they are, in which an id is looked
 * for where it must stand.
 */
import { hash } from 'node:crypto';
import { isId } from '../../../../kernel/ids.ts';

const IDS_IN_A_BUCKET = 16;
/** Two bytes of a digest say in which. */
const MAX_BUCKETS = 65_536;
/** Stands on both sides of each id. No text of PostgreSQL holds it. */
const MARK = '\0';

interface PackedIds {
  /** The ids, bucket after bucket. */
  readonly bytes: Buffer;
  /** Where each bucket begins, from 1, as PostgreSQL reads a list. */
  readonly starts: string;
  /** Bytes of the longest bucket. */
  readonly longest: number;
}

const known = new WeakMap<readonly string[], PackedIds>();

/** The list must not be changed afterwards. */
function packed(ids: readonly string[]): PackedIds {
  let found = known.get(ids);
  if (!found) {
    found = pack(ids);
    known.set(ids, found);
  }
  return found;
}

function pack(ids: readonly string[]): PackedIds {
  const count = Math.min(MAX_BUCKETS, Math.ceil(ids.length / IDS_IN_A_BUCKET));
  const buckets = Array.from({ length: count }, (): string[] => []);
  for (const id of ids) buckets[bucketOf(id, count)]?.push(id);
  let longest = 0;
  let end = 1;
  const starts: number[] = [];
  const pieces = buckets.map((inside) => {
    const piece = Buffer.from(inside.length === 0 ? '' : MARK + inside.join(MARK) + MARK);
    starts.push(end);
    end += piece.length;
    longest = Math.max(longest, piece.length);
    return piece;
  });
  return { bytes: Buffer.concat(pieces), starts: `{${starts.join(',')}}`, longest };
}

const bucketOf = (id: string, count: number): number =>
  Number.parseInt(hash('sha256', id, 'hex').slice(0, 4), 16) % count;

/**
 * Whether an id (SQL, a text) is among the ids. The bytes that are looked at may reach into the next bucket: what is found
 * there is one of the ids as well. Each value stands in a sub-select, so that one plan fits all (tuple-loading.ts).
 */
export function packedTest(
  ids: readonly string[],
  id: string,
  next: (value: unknown) => string,
): string {
  const { bytes, starts, longest } = packed(ids);
  const list = `(select ${next(starts)}::integer[])`;
  const text = `convert_to(${id}, 'UTF8')`;
  const digest = `('x' || encode(substring(sha256(${text}) from 1 for 2), 'hex'))::bit(16)::integer`;
  const bucket = `substring((select ${next(bytes)}::bytea) from (${list}::integer[])[1 + ${digest} % cardinality(${list})] for (select ${next(longest)}::integer))`;
  return `position(decode('00', 'hex') || ${text} || decode('00', 'hex') in ${bucket}) > 0`;
}

const held = new WeakMap<readonly string[], readonly string[]>();

/** Those of the ids that a field of a record can hold: the same list for the same ids, so that it is packed once. */
export function rowIds(ids: readonly string[]): readonly string[] {
  const known = held.get(ids) ?? ids.filter(isId);
  held.set(ids, known);
  return known;
}

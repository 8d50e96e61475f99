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

/** How ids are written in the bytes: no id may be found between others, across their ends. */
interface Form {
  /** What of an id its bucket is worked out from. */
  keyOf(id: string): string | Buffer;
  write(ids: readonly string[]): string;
}

/** Any texts, each between two marks. */
const texts: Form = {
  keyOf: (id) => id,
  write: (ids) => (ids.length === 0 ? '' : MARK + ids.join(MARK) + MARK),
};

const bytesOfUuid = (id: string): Buffer => Buffer.from(id.replaceAll('-', ''), 'hex');

/** The sixteen bytes in base64: each ends with the only two `=` of it, and so does what is looked for. */
const uuids: Form = {
  keyOf: bytesOfUuid,
  write: (ids) => ids.map((id) => bytesOfUuid(id).toString('base64')).join(''),
};

const known = new Map([texts, uuids].map((form) => [form, new WeakMap<object, PackedIds>()]));

/** The list must not be changed afterwards. */
function packed(ids: readonly string[], form: Form): PackedIds {
  let found = known.get(form)?.get(ids);
  if (!found) {
    found = pack(ids, form);
    known.get(form)?.set(ids, found);
  }
  return found;
}

function pack(ids: readonly string[], { keyOf, write }: Form): PackedIds {
  const count = Math.min(MAX_BUCKETS, Math.ceil(ids.length / IDS_IN_A_BUCKET));
  const buckets = Array.from({ length: count }, (): string[] => []);
  for (const id of ids) buckets[bucketOf(keyOf(id), count)]?.push(id);
  let longest = 0;
  let end = 1;
  const starts: number[] = [];
  const pieces = buckets.map((inside) => {
    const piece = Buffer.from(write(inside));
    starts.push(end);
    end += piece.length;
    longest = Math.max(longest, piece.length);
    return piece;
  });
  return { bytes: Buffer.concat(pieces), starts: `{${starts.join(',')}}`, longest };
}

const bucketOf = (key: string | Buffer, count: number): number =>
  Number.parseInt(hash('sha256', key, 'hex').slice(0, 4), 16) % count;

type Next = (value: unknown) => string;

/** Whether an id (SQL, a text) is among the ids. */
export const packedTest = (ids: readonly string[], id: string, next: Next): string => {
  const text = `convert_to(${id}, 'UTF8')`;
  const sought = `decode('00', 'hex') || ${text} || decode('00', 'hex')`;
  return testOf(packed(ids, texts), { key: text, sought }, next);
};

/** The same of an id that is a `uuid`; none of the ids is anything else. */
export const packedUuidTest = (ids: readonly string[], id: string, next: Next): string => {
  const key = `uuid_send(${id})`;
  const sought = `convert_to(encode(${key}, 'base64'), 'UTF8')`;
  return testOf(packed(ids, uuids), { key, sought }, next);
};

/**
 * The bytes that are looked at may reach into the next bucket: what is found there is one of the ids as well. Each value
 * stands in a sub-select, so that one plan fits all (tuple-loading.ts).
 */
function testOf(
  { bytes, starts, longest }: PackedIds,
  { key, sought }: { readonly key: string; readonly sought: string },
  next: Next,
): string {
  const list = `(select ${next(starts)}::integer[])`;
  const digest = `('x' || encode(substring(sha256(${key}) from 1 for 2), 'hex'))::bit(16)::integer`;
  const bucket = `substring((select ${next(bytes)}::bytea) from (${list}::integer[])[1 + ${digest} % cardinality(${list})] for (select ${next(longest)}::integer))`;
  return `position(${sought} in ${bucket}) > 0`;
}

const held = new WeakMap<readonly string[], readonly string[]>();

/** Those of the ids that a field of a record can hold: the same list for the same ids, so that it is packed once. */
export function rowIds(ids: readonly string[]): readonly string[] {
  const known = held.get(ids) ?? ids.filter(isId);
  held.set(ids, known);
  return known;
}

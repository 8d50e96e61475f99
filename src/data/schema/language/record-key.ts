/**
 * Ids of records. A schema of the platform has UUIDs; a schema that is laid over an existing table has
 * what the primary key of that table gives: the text of a single column, or the texts of several
 * joined by `~` (docs/guides/existing-database.md).
 */

import { isId } from '../../../kernel/ids.ts';
import { isStorable } from '../../../kernel/text.ts';

/** What the columns of a key hold, as far as ids are concerned. */
export type KeyType =
  | 'uuid'
  | 'text'
  | 'bpchar'
  | 'bigint'
  | 'numeric'
  | 'boolean'
  | 'date'
  | 'timestamp'
  | 'timestamptz';

/** The types of the columns that make an id, in order; none: records have no id. */
export type RecordKey = readonly KeyType[];

export const platformKey: RecordKey = ['uuid'];

const SEPARATOR = '~';
/** Longest id, in UTF-16 units. */
const MAX_ID = 1_024;

const isWhole = (text: string): boolean =>
  /^(?:0|-?[1-9]\d{0,18})$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text);

function isDay(text: string): boolean {
  const day = /^\d{4}-\d{2}-\d{2}$/.test(text) ? new Date(`${text}T00:00:00Z`) : undefined;
  return day !== undefined && !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text);
}

function isInstant(text: string): boolean {
  const parts = /^(\d{4}-\d{2}-\d{2})T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z$/.exec(text);
  return parts !== null && isDay(parts[1] ?? '');
}

/** Only the form in which ids are given out: one record has one id. */
const fits: Readonly<Record<KeyType, (text: string) => boolean>> = {
  uuid: isId,
  text: isStorable,
  bpchar: isStorable,
  bigint: isWhole,
  numeric: (text) => /^-?\d{1,100}(?:\.\d{1,100})?$/.test(text),
  boolean: (text) => text === 'true' || text === 'false',
  date: isDay,
  timestamp: isInstant,
  timestamptz: isInstant,
};

/** What an id of this kind looks like, for errors. */
export const keyHint = (key: RecordKey): string => {
  const [type] = key;
  if (key.length > 1) return `must be the ${key.length} parts of the key, joined by ~`;
  if (type === 'uuid') return 'must be an id (UUID)';
  if (type === 'bigint') return 'must be a whole number as text';
  return type === undefined ? 'records of this schema have no id' : `must be an id (${type})`;
};

/** True for a text that can be one value of a key. */
export const isKeyValue = (type: KeyType, value: unknown): value is string =>
  typeof value === 'string' && value.length <= MAX_ID && fits[type](value);

/** The parts of an id; `undefined` for what cannot be one. */
export function keyParts(key: RecordKey, id: string): readonly string[] | undefined {
  if (key.length === 0 || id.length > MAX_ID) return undefined;
  const parts = key.length === 1 ? [id] : id.split(SEPARATOR).map(unescaped);
  return parts.length === key.length && key.every((type, i) => isKeyValue(type, parts[i]))
    ? parts
    : undefined;
}

/** The inverse of the escaping in `escapedText`; an `!` that stands alone stays. */
const unescaped = (part: string): string => part.replaceAll('!1', SEPARATOR).replaceAll('!0', '!');

/** True for a text that can be the id of a record. */
export function isRecordId(key: RecordKey, id: unknown): id is string {
  if (key === platformKey) return isId(id);
  return typeof id === 'string' && keyParts(key, id) !== undefined;
}

/** UUIDs have one form, other ids are taken as they are. */
export const canonicalId = (key: RecordKey, id: string): string =>
  key.length === 1 && key[0] === 'uuid' ? id.toLowerCase() : id;

const instantFormat = `'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'`;

/** The text of a key column in an id, as SQL. */
function partText(type: KeyType, column: string): string {
  switch (type) {
    case 'date':
      return `to_char(${column}, 'YYYY-MM-DD')`;
    case 'timestamp':
    case 'timestamptz':
      return `to_char(${column}, ${instantFormat})`;
    default:
      return `${column}::text`;
  }
}

const escapedText = (type: KeyType, column: string): string =>
  type === 'text' || type === 'bpchar'
    ? `replace(replace(${column}::text, '!', '!0'), '${SEPARATOR}', '!1')`
    : partText(type, column);

/** The id of a row, as SQL of type text, from its key columns. */
export function idText(key: RecordKey, columns: readonly string[]): string {
  const [type] = key;
  if (type === undefined) return 'null::text';
  if (key.length === 1) return partText(type, columns[0] ?? '');
  return `(${key.map((part, i) => escapedText(part, columns[i] ?? '')).join(` || '${SEPARATOR}' || `)})`;
}

/** A part of an id of several, as SQL of the type of its column. */
export function partOf(type: KeyType, id: string, position: number): string {
  const part = `split_part(${id}::text, '${SEPARATOR}', ${position + 1})`;
  const plain =
    type === 'text' || type === 'bpchar'
      ? `replace(replace(${part}, '!1', '${SEPARATOR}'), '!0', '!')`
      : part;
  return type === 'text' ? plain : `(${plain})::${type}`;
}

/** Among many records that are written at once: which one has the value that another has already. */
import { PenstockError, relocated } from '../errors.ts';
import { recordErrors } from './errors.ts';

/** A record as it was to be written. */
export interface WrittenRecord {
  /** Columns; those that a change leaves alone are not there. */
  readonly values: Readonly<Record<string, unknown>>;
  /** `docs.3.` */
  readonly place: string;
}

/** The same error at the places of the records that clash, where they can be told. Anything else comes back as it is. */
export function clashAt(error: unknown, records: readonly WrittenRecord[]): unknown {
  if (!(error instanceof PenstockError) || error.code !== recordErrors.RECORD_NOT_UNIQUE.code) return error;
  const columns = error.errors?.map(({ path }) => path) ?? [];
  const texts = clashingTexts(error.cause, columns.length);
  if (!texts) return error;
  const clashing = records.filter(({ values }) =>
    columns.every((column, i) => !Object.hasOwn(values, column) || isSame(values[column], texts[i] ?? '')),
  );
  // A change that sets none of the columns cannot be told from others; of several new values the first is not the one too many.
  const named = clashing.filter(({ values }) => columns.some((column) => Object.hasOwn(values, column)));
  const place = named.at(named.length > 1 ? 1 : 0)?.place;
  return place === undefined ? error : relocated(error, (path) => place + path);
}

/** The values that PostgreSQL names in its refusal, as text: `Key (a, b)=(1, 2) already exists.` */
function clashingTexts(cause: unknown, count: number): readonly string[] | undefined {
  const { detail } = (cause ?? {}) as { detail?: unknown };
  const found = typeof detail === 'string' ? /\)=\((.*)\)/s.exec(detail)?.[1] : undefined;
  if (found === undefined) return undefined;
  const texts = count === 1 ? [found] : found.split(', ');
  return texts.length === count ? texts : undefined;
}

function isSame(value: unknown, text: string): boolean {
  if (typeof value === 'number') return Number(text) === value;
  if (typeof value === 'boolean') return text === (value ? 't' : 'f');
  return value === text || (typeof value === 'string' && isoInstant.test(value) && Date.parse(text) === Date.parse(value));
}

const isoInstant = /^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/;

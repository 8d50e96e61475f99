/**
 * What the audit log says about records that operators write: which fields, of which records. Never what is in
 * them: that is the app's data, may be encrypted in its table, and is kept by the history of records where it is wanted.
 */
import type { DecodedInput } from '../../../kernel/operation.ts';

type Told = (input: Pick<DecodedInput, 'body'>) => unknown;

/** Of many records, so many are named. */
const MAX_NAMED = 100;

/** For a body that holds one record under `key`. */
export const fieldsOf =
  (key: string): Told =>
  ({ body }) => ({ fields: Object.keys(recordsUnder(body, key)[0] ?? {}) });

/** For a body that holds many records under `key`. */
export const manyOf =
  (key: string): Told =>
  ({ body }) => {
    const records = recordsUnder(body, key);
    const ids = records.flatMap(({ _id }) => (typeof _id === 'string' ? [_id] : []));
    return { documents: records.length, ...(ids.length > 0 ? { ids: ids.slice(0, MAX_NAMED) } : {}) };
  };

function recordsUnder(body: unknown, key: string): readonly Readonly<Record<string, unknown>>[] {
  const value: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, key) : undefined;
  return Array.isArray(value) ? value : [value as Readonly<Record<string, unknown>>];
}

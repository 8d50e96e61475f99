/** What operations of a batch take from the results of earlier ones: `{"$ref": "author"}`, `{"$ref": "author.name"}`. */
import { shortName } from '../../../data/schema/language/names.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { invalidInput } from '../../../kernel/operations/problems.ts';
import { currentAccount, jsonSize } from '../../../kernel/request-account/request-account.ts';

/** One of the operations of `POST /database/batch`, as its route has checked it. */
export interface BatchOperation {
  readonly op: 'create' | 'read' | 'update' | 'replace' | 'delete' | 'move';
  readonly schema: string;
  /** Or `{"$ref": "<operation>.<path>"}`. */
  readonly id?: unknown;
  readonly data?: Readonly<Record<string, unknown>>;
  /** Name by which later operations refer to the result; its place in the list works too. */
  readonly ref?: string;
  readonly scope?: string;
  /** The version that the caller saw; another one stored is 412. */
  readonly version?: number;
}

/** Records by the names and places of the operations that answered them; only those that are referred to. */
export type Results = Map<string, unknown>;

interface Resolving {
  readonly results: Results;
  readonly place: string;
}

/** Characters of a text that a reference may stand for. References are for ids and the like; each use is a copy. */
const MAX_TEXT = 8_192;
/** Bytes of one record with its references in place: what its own route takes. */
const MAX_RECORD_BYTES = 1_048_576;

/** Throws 400 for names that are taken twice or look like a place or a path. */
export function requireNames(operations: readonly BatchOperation[]): void {
  const seen = new Set<string>();
  for (const [index, { ref }] of operations.entries()) {
    if (ref === undefined) continue;
    if (seen.has(ref) || /^\d+$|\./.test(ref)) {
      throw invalid(
        `operations.${index}.ref`,
        'unique',
        'must be a name that no other operation has, without dots, and no number',
      );
    }
    seen.add(ref);
  }
}

/** What each operation takes beside `op`, `schema`, `ref` and `scope`. */
const taken: Readonly<Record<BatchOperation['op'], readonly string[]>> = {
  create: ['data'],
  read: ['id'],
  update: ['id', 'data', 'version'],
  replace: ['id', 'data', 'version'],
  delete: ['id', 'version'],
  move: ['id', 'data', 'version'],
};

/** Throws 400 for what an operation would not look at: whoever sends a version believes that it is compared. */
export function requireTaken(operations: readonly BatchOperation[]): void {
  const problems = operations.flatMap((operation, index) =>
    (['id', 'data', 'version'] as const)
      .filter((name) => operation[name] !== undefined && !taken[operation.op].includes(name))
      .map((name) => ({
        path: `operations.${index}.${name}`,
        rule: 'unknown',
        message: `${operation.op} takes no ${name}`,
      })),
  );
  if (problems.length > 0) throw invalidInput(problems);
}

/** The names and places that the operations refer to: no other result has to be kept. */
export function referredNames(operations: readonly BatchOperation[]): ReadonlySet<string> {
  const names = new Set<string>();
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) value.forEach(visit);
    else if (isReference(value)) names.add(value.$ref.split('.', 1)[0] ?? '');
    else if (isObject(value)) Object.values(value).forEach(visit);
  };
  for (const { id, data } of operations) {
    visit(id);
    visit(data);
  }
  return names;
}

/** The fields with every reference in them replaced. Throws 400, or 413 when they have become too large. */
export function resolvedData(
  data: Readonly<Record<string, unknown>>,
  results: Results,
): Record<string, unknown> {
  const record = resolved(data, { results, place: 'data' }) as Record<string, unknown>;
  if (jsonSize(record, MAX_RECORD_BYTES) > MAX_RECORD_BYTES)
    throw errors.PAYLOAD_TOO_LARGE({
      message: `data: is larger than ${MAX_RECORD_BYTES} bytes with its references in place`,
    });
  return record;
}

export function resolved(value: unknown, { results, place }: Resolving): unknown {
  if (Array.isArray(value))
    return value.map((item, index) => resolved(item, { results, place: `${place}.${index}` }));
  if (!isObject(value)) return value;
  if (isReference(value))
    return single(referred(value.$ref, { results, place }), { path: value.$ref, place });
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      resolved(item, { results, place: `${place}.${shortName(key)}` }),
    ]),
  );
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isReference = (value: unknown): value is { readonly $ref: string } =>
  isObject(value) && typeof value.$ref === 'string' && Object.keys(value).length === 1;

/** `author` is the id of what that operation made; `author.name` a field of it. */
function referred(path: string, { results, place }: Resolving): unknown {
  const [name = '', ...rest] = path.split('.');
  if (!results.has(name))
    throw invalid(
      place,
      'reference',
      `"${shortName(name)}" is not an earlier operation that succeeded`,
    );
  let value = results.get(name);
  for (const key of rest.length > 0 ? rest : ['_id']) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) {
      throw invalid(place, 'reference', `"${shortName(path)}" leads to nothing`);
    }
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** Objects and lists would multiply: each operation could hold the one before it many times. */
function single(
  value: unknown,
  { path, place }: { readonly path: string; readonly place: string },
): unknown {
  if (typeof value === 'object' && value !== null)
    throw invalid(
      place,
      'reference',
      `"${shortName(path)}" leads to an object or a list: refer to a single value in it`,
    );
  if (typeof value !== 'string') return value;
  if (value.length > MAX_TEXT)
    throw invalid(
      place,
      'reference',
      `"${shortName(path)}" leads to a text of more than ${MAX_TEXT} characters: send it instead`,
    );
  currentAccount()?.charge('bytesIn', value.length);
  return value;
}

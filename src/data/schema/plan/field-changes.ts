/** What a change does to the fields that are there: new names, values for those that have none, and fields that are taken out. */
import type { Problem } from '../../../kernel/errors.ts';
import type { DroppedField, DroppedFields } from '../compile/compiled.ts';
import { type Declaration, treeOf } from '../compile/declaration.ts';
import { invalidSchema, schemaErrors } from '../errors.ts';
import type { FieldMap, IndexDefinition, PlatformOptions } from '../language/definition.ts';
import { mergedFields } from '../language/extension.ts';
import { type ObjectField, typeSignatures } from '../language/field.ts';
import { shortName } from '../language/names.ts';
import { checkerOf } from '../language/values.ts';
import type { Renames } from './column-steps.ts';
import { definitionAt } from './dropped.ts';

/* Which changes of a type keep every stored value as it is. */

/** Type signatures (field.ts), from and to. */
const widenings: ReadonlySet<string> = new Set([
  'number:integer>number:bigint',
  'number:integer>number:numeric',
  'number:integer>number:double precision',
  'number:bigint>number:numeric',
  'objectId>string',
]);

const isLink = (signature: string): boolean =>
  signature === 'objectId' || signature.startsWith('relation:');

/**
 * True when stored values fit the other type. An id may become a link and a link a plain id: what links
 * to nothing is found when the key is made. Only columns can be widened: inside of JSON nothing is rewritten.
 */
function isWidening(path: string, from: string, to: string): boolean {
  if (path.includes('.')) return false;
  return (
    widenings.has(`${from}>${to}`) ||
    (isLink(from) && isLink(to) && (from === 'objectId' || to === 'objectId'))
  );
}

/** What an admin can do about a change of type that is refused. */
const refusedChange = (from: string, to: string): string =>
  `was ${from} and cannot become ${to}. Add a field of the new type, copy the values, then take this one out and rename the new one`;

const mapKeys = <V>(
  record: Readonly<Record<string, V>>,
  key: (name: string) => string,
): Record<string, V> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [key(name), value]));

/** Throws 400 for new names that cannot be given. `requested`: the field map that comes with the change. */
export function requireRenames(
  current: Declaration,
  renames: Renames,
  requested: FieldMap | undefined,
): void {
  const problems = renameProblems(current, renames, requested);
  if (problems.length > 0) throw invalidSchema(problems);
}

/** The declaration as if its fields had had the new names all along. */
export function renamed(current: Declaration, renames: Renames): Declaration {
  const top = (name: string): string => renames.get(name) ?? name;
  const path = (dotted: string): string => {
    const [first = '', ...rest] = dotted.split('.');
    return [top(first), ...rest].join('.');
  };
  const { indexes, conduit } = current.modelOptions;
  return {
    ...current,
    fields: mapKeys(current.fields, top),
    dropped: mapKeys(current.dropped, path),
    layout: { ...current.layout, columns: mapKeys(current.layout.columns, top) },
    modelOptions: {
      ...current.modelOptions,
      conduit: { ...conduit, ...renamedOptions(conduit, path) },
      ...(indexes && { indexes: indexes.map((index) => renamedIndex(index, top)) }),
    },
  };
}

function renameProblems(
  current: Declaration,
  renames: Renames,
  requested: FieldMap | undefined,
): Problem[] {
  const targets = [...renames.values()];
  return [...renames].flatMap(([from, to]): Problem[] => {
    const problem = renameProblem(current, { from, to, requested });
    const message =
      problem ??
      (targets.indexOf(to) < targets.lastIndexOf(to)
        ? `two fields cannot both become "${shortName(to)}"`
        : undefined);
    return message === undefined
      ? []
      : [{ path: `renames.${shortName(from)}`, rule: 'rename', message }];
  });
}

interface Rename {
  readonly from: string;
  readonly to: string;
  readonly requested: FieldMap | undefined;
}

/** The problem of a recorded rename whose new name is taken here. */
export function requireFreeName(
  current: Declaration,
  from: string,
  to: string,
): Problem | undefined {
  const message = takenProblem(current, to);
  return message === undefined
    ? undefined
    : { path: `renames.${shortName(from)}`, rule: 'rename', message };
}

function takenProblem(current: Declaration, to: string): string | undefined {
  if (!current.removed && Object.hasOwn(mergedFields(current), to))
    return `there is a field "${shortName(to)}" already`;
  if (Object.hasOwn(current.layout.columns, to))
    return `"${shortName(to)}" was taken out and its data is kept: purge it, or restore it, first`;
  return undefined;
}

function renameProblem(current: Declaration, { from, to, requested }: Rename): string | undefined {
  if (current.removed || !Object.hasOwn(current.fields, from))
    return 'is not a top-level field of the schema itself';
  if (requested && Object.hasOwn(requested, from))
    return 'must not be among the fields: its place is taken by the new name';
  if (requested && !Object.hasOwn(requested, to))
    return `"${shortName(to)}" must be among the fields`;
  return takenProblem(current, to);
}

/** Options that name fields. */
function renamedOptions(
  { cms, owner }: PlatformOptions,
  path: (dotted: string) => string,
): Partial<Declaration['modelOptions']['conduit']> {
  const query = cms?.query?.fields
    ? { ...cms.query, fields: cms.query.fields.map(path) }
    : cms?.query;
  return {
    ...(query && { cms: { ...cms, query } as Declaration['modelOptions']['conduit']['cms'] }),
    ...(owner && { owner: { ...owner, field: path(owner.field) } }),
  };
}

function renamedIndex(index: IndexDefinition, top: (name: string) => string): IndexDefinition {
  const { fields, engine } = index;
  return {
    ...index,
    fields: fields.map(top),
    ...(engine?.where && { engine: { ...engine, where: mapKeys(engine.where, top) } }),
  };
}

/** Values for records that have none, checked as values of their fields. Throws 400. */
export function backfillOf(
  given: Readonly<Record<string, unknown>> | undefined,
  tree: ObjectField,
): ReadonlyMap<string, unknown> {
  const problems: Problem[] = [];
  const values = new Map<string, unknown>();
  for (const [name, value] of Object.entries(given ?? {})) {
    const place = `backfill.${shortName(name)}`;
    const field = tree.fields.get(name);
    if (!field)
      problems.push({
        path: place,
        rule: 'field',
        message: 'is not a top-level field of the schema',
      });
    else if (value === null)
      problems.push({ path: place, rule: 'type', message: 'must be a value' });
    else values.set(name, checkerOf(field)(value, place, problems));
  }
  if (problems.length > 0) throw invalidSchema(problems);
  return values;
}

/** The fields that the new tree leaves out. A field that comes back, or stays, must have the type of its data, or a wider one. */
export function droppedAfter(before: Declaration, tree: ObjectField): DroppedFields {
  const stored = new Map(Object.entries(before.dropped));
  if (!before.removed) for (const [path, field] of liveFields(before)) stored.set(path, field);
  const problems: Problem[] = [];
  for (const [path, signature] of typeSignatures(tree.fields)) {
    const { type } = stored.get(path) ?? {};
    if (type !== undefined && type !== signature && !isWidening(path, type, signature)) {
      problems.push({
        path: `fields.${path}`,
        rule: 'type',
        message: refusedChange(type, signature),
      });
    }
    stored.delete(path);
  }
  if (problems.length > 0) throw schemaErrors.SCHEMA_TYPES_INVALID({ errors: problems });
  return Object.fromEntries(stored);
}

/** Every field that is there, as it would be remembered when it is taken out now. */
export function liveFields(before: Declaration): readonly (readonly [string, DroppedField])[] {
  const at = new Date().toISOString();
  const merged = mergedFields(before);
  return [...typeSignatures(treeOf(before).fields)].map(([path, type]) => {
    const [top = ''] = path.split('.');
    const definition = definitionAt(merged, path);
    const owner = before.extensions.find(({ fields }) => Object.hasOwn(fields, top))?.ownerModule;
    return [
      path,
      {
        type,
        at,
        ...(definition !== undefined && { definition }),
        ...(owner !== undefined && { extension: owner }),
      },
    ] as const;
  });
}

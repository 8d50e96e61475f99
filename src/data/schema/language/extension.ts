/** Fields that a module (or an admin, as `database`) adds to a schema of somebody else (spec/database.md 5.8). */
import type { Problem } from '../../../kernel/errors.ts';
import { schemaErrors } from '../errors.ts';
import type { FieldMap } from './definition.ts';
import { automaticFields, shortName } from './names.ts';
import { parseFields } from './parse.ts';

export interface SchemaExtension {
  readonly fields: FieldMap;
  readonly ownerModule: string;
  readonly createdAt: string;
  readonly updatedAt: string;
}

interface Extended {
  readonly fields: FieldMap;
  readonly extensions: readonly SchemaExtension[];
}

/** All fields of a schema: its own, then those of its extensions. */
export const mergedFields = ({ fields, extensions }: Extended): FieldMap =>
  extensions.length === 0
    ? fields
    : Object.fromEntries(
        [fields, ...extensions.map((one) => one.fields)].flatMap((map) => Object.entries(map)),
      );

/** The extensions after `owner` has set its fields; none takes its extension away. */
export function withExtension(
  extensions: readonly SchemaExtension[],
  owner: string,
  fields: FieldMap,
): readonly SchemaExtension[] {
  const before = extensions.find(({ ownerModule }) => ownerModule === owner);
  const others = extensions.filter((one) => one !== before);
  if (Object.keys(fields).length === 0) return others;
  if (before && JSON.stringify(before.fields) === JSON.stringify(fields)) return extensions;
  const now = new Date().toISOString();
  const next = { fields, ownerModule: owner, createdAt: before?.createdAt ?? now, updatedAt: now };
  return before ? extensions.map((one) => (one === before ? next : one)) : [...extensions, next];
}

export interface ExtensionCheck {
  /** Where the fields stand in the request. */
  readonly place?: string;
  /** Whoever serves the records of the schema honours rules of single fields. */
  readonly hasAccess?: boolean;
}

/**
 * Throws 400 for fields that an extension cannot have, 409 for names that are taken. `current`: the
 * schema without the extension that is set.
 */
export function checkExtension(
  fields: FieldMap,
  current: Extended,
  { place = 'fields', hasAccess = false }: ExtensionCheck = {},
): void {
  const names = Object.keys(fields);
  const taken = mergedFields(current);
  const twins = names.filter((name) => Object.hasOwn(taken, name) || automaticFields.has(name));
  if (twins.length > 0) {
    const problems = twins.map((name) => ({
      path: `${place}.${shortName(name)}`,
      rule: 'unique',
      message: 'the schema has this field already',
    }));
    throw schemaErrors.EXTENSION_CONFLICT({ errors: problems });
  }
  const problems = names.length === 0 ? [] : fieldProblems(fields, { place, hasAccess });
  if (problems.length > 0)
    throw schemaErrors.SCHEMA_INVALID({
      errors: problems,
      message: `${problems[0]?.path}: ${problems[0]?.message}`,
    });
}

/** Records were there before the extension: nothing about it can be a must. */
function fieldProblems(
  fields: FieldMap,
  { place, hasAccess }: Required<ExtensionCheck>,
): readonly Problem[] {
  const { tree, problems } = parseFields(fields);
  const musts = [...tree.fields].flatMap(([name, field]): Problem[] => {
    const path = `${place}.${name}`;
    const message = (option: string): string => `a field of an extension cannot be ${option}`;
    return [
      ...(field.required
        ? [{ path: `${path}.required`, rule: 'extension', message: message('required') }]
        : []),
      ...(field.unique
        ? [{ path: `${path}.unique`, rule: 'extension', message: message('unique') }]
        : []),
      // Most modules show their records in ways of their own, which know no such rules.
      ...(field.access && !hasAccess
        ? [
            {
              path: `${path}.access`,
              rule: 'extension',
              message: message('limited to some callers'),
            },
          ]
        : []),
    ];
  });
  return [
    ...problems.map((problem) => ({
      ...problem,
      path: problem.path.replace(/^fields/, () => place),
    })),
    ...musts,
  ];
}

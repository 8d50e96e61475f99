/**
 * Stored declarations that a hand, a restore or another version has damaged: what is wrong with them, and what of them can
 * still be worked with, so that operators can change or remove them.
 */
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { mergedFields } from '../language/extension.ts';
import { resolveOptions, storedModelOptions } from '../language/options.ts';
import { parseFields } from '../language/parse.ts';
import type { CompiledSchema } from './compiled.ts';
import { compileDeclaration, type Declaration } from './declaration.ts';
import { emptyLayout } from './layout.ts';

const record = <T extends Type.TSchema>(value: T) => Type.Record(Type.String(), value);
const offered = Type.Object({ enabled: Type.Boolean(), authenticated: Type.Boolean() });

/** What everything that works with a declaration counts on. Options that open something are never guessed. */
const parts = {
  fields: record(Type.Unknown()),
  extensions: Type.Array(
    Type.Object({ ownerModule: Type.String(), fields: record(Type.Unknown()) }),
  ),
  modelOptions: Type.Object({
    timestamps: Type.Boolean(),
    conduit: Type.Object({
      cms: Type.Object({
        enabled: Type.Boolean(),
        crudOperations: Type.Object({
          create: offered,
          read: offered,
          update: offered,
          delete: offered,
        }),
      }),
      permissions: Type.Object({
        extendable: Type.Boolean(),
        canCreate: Type.Boolean(),
        canModify: Type.Enum(['Everything', 'Nothing', 'ExtensionOnly']),
        canDelete: Type.Boolean(),
      }),
      authorization: Type.Object({ enabled: Type.Boolean() }),
    }),
    indexes: Type.Optional(Type.Array(Type.Object({ fields: Type.Array(Type.String()) }))),
  }),
  layout: Type.Object({
    columns: record(Type.Object({ type: Type.String(), notNull: Type.Boolean() })),
    indexes: record(Type.Object({ columns: Type.Array(Type.String()) })),
    foreignKeys: record(Type.Object({ column: Type.String(), target: Type.String() })),
    mapping: Type.Optional(Type.Object({ source: Type.Object({ name: Type.String() }) })),
  }),
  dropped: record(Type.Object({ type: Type.String() })),
  changes: Type.Array(Type.Object({ id: Type.String() })),
} as const;
type Part = keyof typeof parts;

/** Nothing is open in what takes the place of a part. */
const empty: { readonly [K in Part]: Declaration[K] } = {
  fields: {},
  extensions: [],
  modelOptions: storedModelOptions(
    resolveOptions({ cms: { enabled: false }, authorization: { enabled: true } }, {}, false),
    {},
  ),
  layout: emptyLayout,
  dropped: {},
  changes: [],
};

const partNames = Object.keys(parts) as Part[];
const checks = new Map(partNames.map((part) => [part, Compile(parts[part])]));

const damagedParts = (declaration: Declaration): readonly Part[] =>
  partNames.filter((part) => !checks.get(part)?.Check(declaration[part]));

type Compiled =
  | { readonly schema: CompiledSchema; readonly problem?: undefined }
  | { readonly problem: string };

function compiled(declaration: Declaration, exists: (name: string) => boolean): Compiled {
  const damaged = damagedParts(declaration);
  if (damaged.length > 0) return { problem: `cannot be read: ${damaged.join(', ')}` };
  try {
    const schema = compileDeclaration(declaration, exists);
    // Made now: what they cannot be made of is found here, and not by the routes.
    for (const purpose of ['create', 'record'] as const) void schema.shapes[purpose];
    return { schema };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : 'cannot be read' };
  }
}

/** The schema of a stored declaration, or what stands in for it, with the problem. */
export function compiledOr(
  declaration: Declaration,
  exists: (name: string) => boolean,
): CompiledSchema {
  const { schema, problem } = { schema: undefined, ...compiled(declaration, exists) };
  return schema ?? compileDeclaration(usable(declaration, problem ?? ''), exists);
}

/** A declaration as it can be changed and removed, with its problem where it has one. */
export function readable(declaration: Declaration): Declaration {
  const { problem } = compiled(declaration, () => true);
  return problem === undefined ? declaration : usable(declaration, problem);
}

/** Fields that are stored and mean nothing: records are served without them. */
export const unknownFields = (declaration: Declaration): readonly string[] =>
  parseFields(mergedFields(declaration)).problems.map(({ path }) => path);

/** The declaration with as little of it taken for empty as lets it be changed and removed. `problem` says why. */
function usable(declaration: Declaration, problem: string): Declaration {
  const without = (names: readonly Part[]): Declaration => ({
    ...declaration,
    problem,
    ...Object.fromEntries(names.map((part) => [part, empty[part]])),
  });
  const damaged = damagedParts(declaration);
  const further: readonly (readonly Part[])[] = [
    [],
    ['modelOptions'],
    ['fields', 'extensions'],
    ['fields', 'extensions', 'modelOptions'],
  ];
  const tries = further.map((names) => without([...damaged, ...names]));
  return (
    tries.find((made) => compiled(made, () => true).problem === undefined) ?? without(partNames)
  );
}

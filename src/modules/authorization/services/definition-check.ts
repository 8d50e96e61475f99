/** What speaks against a change of resource definitions, found without changing anything. */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { placed } from '../../../kernel/state/placed.ts';
import { authorizationErrors } from '../errors.ts';
import { checkAgainst } from '../model/check.ts';
import { type Definition, invalidDefinition } from '../model/definition.ts';
import { requireNoMisfits } from './live-tuples.ts';
import { type DefinitionContent, parsedDefinition, type StoredDefinition, soundDefinitions } from './models.ts';
import { servesRecords } from './record-type.ts';

export type Stored = ReadonlyMap<string, StoredDefinition>;

export const parsed = (stored: Stored): readonly Definition[] => soundDefinitions(stored.values());

export interface DefinitionsChange {
  readonly defined: readonly DefinitionContent[];
  readonly removed: readonly string[];
  /** Schemas that will be gone by then: their records need no definition. */
  readonly withoutSchema: ReadonlySet<string>;
  /** Schemas whose records will be a matter of permission by then. */
  readonly withRecords: ReadonlySet<string>;
}

/** The stored definitions as they will be when these are in force. */
export const withContents = (stored: Stored, contents: readonly DefinitionContent[]): Stored =>
  new Map([
    ...stored,
    ...contents.map((content) => {
      const before = stored.get(content.name) ?? { id: '', version: 0, createdAt: '', updatedAt: '' };
      return [content.name, { ...before, ...content }] as const;
    }),
  ]);

interface Situation {
  readonly database: Queryable;
  readonly stored: Stored;
  /** True for a schema whose records are a matter of permission now. */
  readonly hasRecords: (name: string) => boolean;
}

/** Throws 400 for what makes no sense and 409 for what would break, with `place(name)` before the paths. */
export async function checkDefinitions(
  { database, stored, hasRecords }: Situation,
  { defined, removed, withoutSchema, withRecords }: DefinitionsChange,
  place: (name: string) => string,
): Promise<void> {
  const next = parsed(new Map([...withContents(stored, defined)].filter(([name]) => !removed.includes(name))));
  const willServe = (name: string): boolean => withRecords.has(name) || (hasRecords(name) && !withoutSchema.has(name));
  for (const content of defined) {
    await placed(place(content.name), async () => {
      const definition = parsedDefinition(content);
      const problems = checkAgainst(definition, next);
      if (problems.length > 0) throw invalidDefinition(problems);
      if (willServe(content.name) && !servesRecords(definition)) throw neededByRecords(content.name);
      if (stored.has(content.name)) await requireNoMisfits({ database, definitions: next, type: content.name, actor: '' });
    });
  }
  const needed = removed.find(willServe);
  if (needed !== undefined) throw neededByRecords(needed);
  requireUnbroken(
    next,
    parsed(stored),
    defined.map(({ name }) => name),
  );
}

export const neededByRecords = (name: string) =>
  authorizationErrors.RESOURCE_IN_USE({
    message: `Records of ${name} are served by its actions read, edit and delete and its relation "owner" for User; force=true takes them away all the same`,
  });

/** Throws 409 when other definitions, sound until now, would hang in the air. */
export function requireUnbroken(next: readonly Definition[], before: readonly Definition[], changed: readonly string[]): void {
  const problems = next
    .filter(({ name }) => !changed.includes(name))
    .filter((definition) => checkAgainst(definition, before).length === 0)
    .flatMap((definition) =>
      checkAgainst(definition, next).map((problem): Problem => ({ ...problem, path: `${definition.name}.${problem.path}` })),
    );
  if (problems.length === 0) return;
  const [first] = problems;
  throw authorizationErrors.RESOURCE_IN_USE({
    message: `Other definitions need what this would take away, such as ${first?.path}: ${first?.message}; force=true does it all the same`,
    errors: problems,
  });
}

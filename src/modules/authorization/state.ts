/** Resource definitions as state: all but those that the platform brings and nobody has changed. */

import type { AuthorityObject } from '../../kernel/authority.ts';
import type { Caller } from '../../kernel/caller.ts';
import { canonicalText } from '../../kernel/canonical.ts';
import { valueAt } from '../../kernel/config/tree.ts';
import type { Database, Queryable } from '../../kernel/database/database.ts';
import type { Problem } from '../../kernel/errors.ts';
import { invalidInput } from '../../kernel/operations/problems.ts';
import type { ObjectDirectory } from '../../kernel/pipeline/input-authority.ts';
import {
  placed,
  type StateChange,
  type StateDocument,
  type StateImport,
  type StateOutlook,
  type StateType,
  touchesNothing,
} from '../../kernel/state.ts';
import { NewDefinitionShape } from './operations/resources.ts';
import { NewRoleShape } from './operations/roles.ts';
import { NewRuleShape } from './operations/rules.ts';
import { listRoles, listRules, type RoleRow, type RuleRow, roleByName } from './role-queries.ts';
import { builtInNames, isUntouched } from './services/definitions/built-in.ts';
import type { Definitions } from './services/definitions/definitions.ts';
import {
  type DefinitionContent,
  parsedDefinition,
  type StoredDefinition,
  validDefinitions,
} from './services/definitions/stored-definition.ts';
import { isBuiltInRole, isUntouchedRole, type NewRole, type Roles } from './services/roles.ts';
import { conditionProblems } from './services/rule-conditions.ts';
import type { RuleInput, Rules } from './services/rules.ts';

function ofType(objects: Pick<ObjectDirectory, 'type'>, name: unknown): readonly AuthorityObject[] {
  const found = objects.type(String(name));
  return found ? [found] : [];
}

/** Versions count the changes of one installation: they are taken, and mean nothing. */
export const definitionState = (
  definitions: Definitions,
  objects: Pick<ObjectDirectory, 'type'>,
): StateType => ({
  module: 'authorization',
  type: 'resourceDefinitions',
  priority: 5,
  document: NewDefinitionShape,
  keyOf: ({ name }) => String(name),
  touches: ({ name }) => ofType(objects, name),
  export: async () => (await definitions.all()).filter(isExported).map(definitionDocument),
  async complete(_caller, documents) {
    const contents = documents.map(({ document }) => contentOf(document));
    for (const [i, content] of contents.entries())
      await placed(documents[i]?.place ?? '', () => void parsedDefinition(content));
    return contents.map(definitionDocument);
  },
  isRemovable: ({ name }) => !builtInNames.has(String(name)),
  async check(_caller, changes, whole) {
    const schemas = whole.changes('database', 'schemas');
    const gone = schemas.filter(({ action }) => action === 'delete');
    const coming = schemas.filter(({ action }) => action !== 'delete');
    const places = new Map(changes.map(({ key, place }) => [key, place]));
    await definitions.checkAll(
      {
        defined: changes.flatMap(({ after }) => (after ? [contentOf(after)] : [])),
        removed: changes.filter(({ action }) => action === 'delete').map(({ key }) => key),
        withoutSchema: new Set(gone.map(({ key }) => key)),
        // The others are as they will be.
        withSchema: new Set(coming.map(({ key }) => key)),
        withRecords: new Set(
          whole
            .documents('database', 'schemas')
            .flatMap(({ document }) => (isRowAuthorised(document) ? [String(document.name)] : [])),
        ),
        comes: ({ module, type, key }) =>
          whole.changes(module, type).some((change) => change.key === key),
      },
      (name) => places.get(name) ?? name,
    );
  },
  outlook: (_caller, changes) => outlookOf(definitions, changes),
  async apply(caller, changes) {
    await definitions.defineAll(
      caller,
      changes.flatMap(({ after }) => (after ? [contentOf(after)] : [])),
      // Schemas are written after their definitions.
      { mayCome: true },
    );
    // What would break was found by the check, which knows what else goes and comes.
    for (const { action, key } of changes)
      if (action === 'delete') await definitions.remove(caller, key, { force: true });
  },
});

/** Whom changed definitions would shut out, and slips in their rules. */
async function outlookOf(
  definitions: Definitions,
  changes: readonly StateChange[],
): Promise<StateOutlook> {
  const found = await definitions.warnings(
    changes.flatMap(({ action, after }) =>
      action !== 'delete' && after ? [contentOf(after)] : [],
    ),
  );
  const closing = [...found.values()]
    .flat()
    .filter(({ changed, closed }) => closed > 0 || changed === 0);
  const warnings = closing.map(({ message }) => message);
  return { effects: new Map(), obstacles: [], warnings };
}

const isExported = (stored: StoredDefinition): boolean =>
  validDefinitions([stored]).length > 0 && !isUntouched(stored);

function contentOf({
  name,
  relations,
  permissions,
  conditions = {},
  actAs = null,
}: StateDocument): DefinitionContent {
  return { name, relations, permissions, conditions, actAs } as DefinitionContent;
}

const definitionDocument = ({
  name,
  relations,
  permissions,
  conditions,
  actAs,
}: StoredDefinition | DefinitionContent): StateDocument => ({
  name,
  relations,
  permissions,
  ...(Object.keys(conditions ?? {}).length > 0 && { conditions }),
  ...(actAs !== null && { actAs }),
});

/** A schema of the same import whose records will be served by the definition of its name. */
const isRowAuthorised = ({ modelOptions }: StateDocument): boolean =>
  valueAt(modelOptions, ['conduit', 'authorization', 'enabled']) === true;

/* Roles as state: all but those that the platform brings and nobody has changed. Who holds them is data. */

/** Rows of one reading; far more than anybody keeps. */
export const ALL = { skip: 0, limit: 100_000 } as const;

export const roleState = (database: Database, roles: Roles): StateType => ({
  module: 'authorization',
  type: 'roles',
  reportDamaged: true,
  priority: 6,
  document: NewRoleShape,
  keyOf: ({ name }) => String(name),
  touches: touchesNothing,
  async export() {
    const { roles: stored } = await listRoles(database, { ...ALL, sort: 'name' });
    return stored.filter((role) => !isUntouchedRole(role)).map(roleDocument);
  },
  complete: async (_caller, documents) =>
    documents.map(({ document }) => roleDocument(document as StateDocument & NewRole)),
  isRemovable: ({ name }) => !isBuiltInRole(String(name)),
  apply: (caller, changes) =>
    database.transaction(async (transaction) => {
      for (const change of changes)
        await applyRole(roles, caller, change, await roleByName(transaction, change.key));
    }),
});

async function applyRole(
  roles: Roles,
  caller: Caller,
  { after }: StateChange,
  stored: RoleRow | undefined,
): Promise<void> {
  if (after && stored) await roles.update(caller, stored.id, after);
  else if (after) await roles.create(caller, after as StateDocument & NewRole);
  else if (stored) await roles.remove(caller, stored.id);
}

const roleDocument = ({ name, description = '', permissions = [] }: NewRole): StateDocument => ({
  name,
  description,
  permissions,
});

/* Rules as state. A rule has no name: all that it says is its key, so a changed rule is another one. */

export const ruleState = (
  database: Database,
  rules: Rules,
  objects: Pick<ObjectDirectory, 'type'>,
): StateType => ({
  module: 'authorization',
  type: 'rules',
  reportDamaged: true,
  priority: 7,
  document: NewRuleShape,
  keyOf,
  touches: ({ resource }) => ofType(objects, resource),
  export: async () => (await storedRules(database)).map(ruleDocument),
  async complete(_caller, documents) {
    const problems = documents.flatMap(({ document, place }) =>
      conditionProblems(ruleDocument(document as StateDocument & RuleInput).conditions).map(
        (problem) => ({
          ...problem,
          path: `${place}.${problem.path}`,
        }),
      ),
    );
    if (problems.length > 0) throw invalidInput(problems);
    return documents.map(({ document }) => ruleDocument(document as StateDocument & RuleInput));
  },
  async check(_caller, changes, whole) {
    const names = await roleNames(database, whole);
    const problems = changes.flatMap(({ after, place }): readonly Problem[] => {
      if (!after || names.has(String(after.role))) return [];
      return [
        {
          path: `${place}.role`,
          rule: 'exists',
          message: `there is no role "${String(after.role)}"`,
        },
      ];
    });
    if (problems.length > 0) throw invalidInput(problems);
  },
  apply: (caller, changes) =>
    database.transaction(async (transaction) => {
      const stored = await storedRules(transaction);
      for (const change of changes) {
        const found = stored.filter((rule) => keyOf(ruleDocument(rule)) === change.key);
        await applyRule(rules, caller, change, found);
      }
    }),
});

async function applyRule(
  rules: Rules,
  caller: Caller,
  { action, after }: StateChange,
  found: readonly RuleRow[],
): Promise<void> {
  if (after && found.length === 0) await rules.create(caller, after as StateDocument & RuleInput);
  for (const { id } of action === 'delete' ? found : []) await rules.remove(caller, id);
}

function keyOf(document: StateDocument): string {
  const { role, action, resource, conditions } = ruleDocument(
    document as StateDocument & RuleInput,
  );
  return `${role}: ${action} ${resource}${Object.keys(conditions).length > 0 ? ` ${canonicalText(conditions)}` : ''}`;
}

const ruleDocument = ({ resource, action, role, conditions = {} }: RuleInput) => ({
  resource,
  action,
  role,
  conditions,
});

const storedRules = async (database: Queryable): Promise<readonly RuleRow[]> =>
  (await listRules(database, { ...ALL, sort: 'role' })).rules;

/** The roles that there will be. */
async function roleNames(database: Queryable, whole: StateImport): Promise<ReadonlySet<string>> {
  const { roles } = await listRoles(database, { ...ALL, sort: 'name' });
  const names = new Set(roles.map(({ name }) => name));
  for (const { action, key } of whole.changes('authorization', 'roles')) {
    if (action === 'delete') names.delete(key);
    else names.add(key);
  }
  return names;
}

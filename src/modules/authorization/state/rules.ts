/** Rules as state. A rule has no name: all that it says is its key, so a changed rule is another one. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { invalidInput } from '../../../kernel/operations/problems.ts';
import { canonicalText } from '../../../kernel/state/canonical.ts';
import type { StateChange, StateDocument, StateImport, StateType } from '../../../kernel/state/state.ts';
import { NewRuleShape } from '../operations/rules.ts';
import { listRoles, listRules, type RuleRow } from '../role-queries.ts';
import { conditionFaults } from '../services/rule-conditions.ts';
import type { RuleInput, Rules } from '../services/rules.ts';
import { ALL } from './roles.ts';

export const ruleState = (database: Database, rules: Rules): StateType => ({
  module: 'authorization',
  type: 'rules',
  priority: 7,
  document: NewRuleShape,
  keyOf,
  export: async () => (await storedRules(database)).map(documentOf),
  async complete(_caller, documents) {
    const problems = documents.flatMap(({ document, place }) =>
      conditionFaults(documentOf(document as StateDocument & RuleInput).conditions).map((fault) => ({
        ...fault,
        path: `${place}.${fault.path}`,
      })),
    );
    if (problems.length > 0) throw invalidInput(problems);
    return documents.map(({ document }) => documentOf(document as StateDocument & RuleInput));
  },
  async check(_caller, changes, whole) {
    const names = await roleNames(database, whole);
    const problems = changes.flatMap(({ after, place }): readonly Problem[] => {
      if (!after || names.has(String(after.role))) return [];
      return [{ path: `${place}.role`, rule: 'exists', message: `there is no role "${String(after.role)}"` }];
    });
    if (problems.length > 0) throw invalidInput(problems);
  },
  apply: (caller, changes) =>
    database.transaction(async (transaction) => {
      const stored = await storedRules(transaction);
      for (const change of changes) {
        const found = stored.filter((rule) => keyOf(documentOf(rule)) === change.key);
        await applyOne(rules, caller, change, found);
      }
    }),
});

async function applyOne(rules: Rules, caller: Caller, { action, after }: StateChange, found: readonly RuleRow[]): Promise<void> {
  if (after && found.length === 0) await rules.create(caller, after as StateDocument & RuleInput);
  for (const { id } of action === 'delete' ? found : []) await rules.remove(caller, id);
}

function keyOf(document: StateDocument): string {
  const { role, action, resource, conditions } = documentOf(document as StateDocument & RuleInput);
  return `${role}: ${action} ${resource}${Object.keys(conditions).length > 0 ? ` ${canonicalText(conditions)}` : ''}`;
}

const documentOf = ({ resource, action, role, conditions = {} }: RuleInput) => ({ resource, action, role, conditions });

const storedRules = async (database: Queryable): Promise<readonly RuleRow[]> => (await listRules(database, { ...ALL, sort: 'role' })).rules;

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

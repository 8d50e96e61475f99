/** Rights that are taken away by what records say, where the schema of these records goes and the records stay. */
import { schemaErrors } from '../../../../data/schema/errors.ts';
import type { SchemaGuard } from '../../../../data/schema/registry/registry.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import { rulesIn } from '../../engine/record-rules.ts';
import { childrenOf, type Expression } from '../../model/expression.ts';
import { buildModel, type Model, type Name, reachable } from '../../model/model.ts';
import { type DefinitionContent, validDefinitions } from './stored-definition.ts';

/**
 * Without its schema nobody can ask what a record says: its rules hold for nobody, its fields are no relations. Where they
 * take rights on records of other schemas away, these would be open from then on, so the schema stays until the
 * definitions say otherwise.
 */
export const guardWithheldRights: SchemaGuard = async (
  transaction,
  _schemas,
  _renames,
  removed,
) => {
  if (removed.size === 0) return;
  const { rows } = await transaction.query<DefinitionContent>(sql`
    select name, relations, fields, permissions, conditions, act_as as "actAs" from penstock.resource_definitions`);
  const model = buildModel(validDefinitions(rows), 0);
  const staying = model.types().filter((type) => !removed.has(type));
  for (const type of removed) {
    const goal = saysSomething(model, type) && firstWithheld(model, staying, type);
    if (goal)
      throw schemaErrors.FIELD_IN_USE({
        message: `The action "${goal.name}" of ${goal.type} is taken away from some by what records of ${type} say (an exclusion over its fields or rules), which nobody can ask without the schema: change the resource definition of ${goal.type} or ${type} first, or delete the records too (deleteData=true)`,
      });
  }
};

const namesOf = (model: Model, type: string): readonly Name[] =>
  [...(model.get(type)?.actions.keys() ?? [])].map((name) => ({ type, kind: 'action', name }));

const rulesOfName = (model: Model, name: Name) =>
  rulesIn(model.expression(name) ?? { kind: 'none' });

/** Whether records of the type themselves say something that permissions ask. */
const saysSomething = (model: Model, type: string): boolean =>
  (model.get(type)?.fields.size ?? 0) > 0 ||
  namesOf(model, type).some((name) => rulesOfName(model, name).length > 0);

const firstWithheld = (model: Model, types: readonly string[], by: string): Name | undefined =>
  types.flatMap((type) => namesOf(model, type)).find((goal) => isWithheldBy(model, goal, by));

function isWithheldBy(model: Model, goal: Name, by: string): boolean {
  const { edges } = reachable(goal, model.dependencies);
  const names = [goal, ...edges.map(({ on }) => on)];
  return (
    names.some((name) => name.type === by && subtractsRule(model.expression(name))) ||
    edges.some(({ negative, on }) => negative && isSaidBy(model, on, by))
  );
}

/** Whether the name hangs on a field or a rule of records of the type. */
const isSaidBy = (model: Model, name: Name, by: string): boolean =>
  [name, ...reachable(name, model.dependencies).edges.map(({ on }) => on)].some(
    (one) =>
      one.type === by &&
      (model.fieldOf(by, one.name) !== undefined || rulesOfName(model, one).length > 0),
  );

function subtractsRule(expression: Expression | undefined): boolean {
  if (!expression) return false;
  if (expression.kind === 'exclusion' && rulesIn(expression.subtract).length > 0) return true;
  return childrenOf(expression).some(subtractsRule);
}

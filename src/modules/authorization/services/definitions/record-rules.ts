/** Rules of definitions held against the schemas whose records they are about. */

import { ruleProblem } from '../../../../data/rules/rule.ts';
import { RuleError } from '../../../../data/rules/syntax.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../../data/schema/errors.ts';
import type { SchemaGuard } from '../../../../data/schema/registry/registry.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { cutText } from '../../../../kernel/text.ts';
import { rulesIn, typedRule } from '../../engine/record-rules.ts';
import type { Definition } from '../../model/definition.ts';
import { type DefinitionContent, parsedDefinition } from './stored-definition.ts';

/** What is wrong with the rules of a definition: with line and column. */
export function recordRuleProblems(
  { name, actions }: Definition,
  schema: CompiledSchema | undefined,
): readonly Problem[] {
  return [...actions.values()].flatMap(rulesIn).flatMap((rule): readonly Problem[] => {
    const path = `${rule.place}.rule`;
    if (!schema) {
      const message = `no schema is called "${cutText(name, 64)}": declare it first`;
      return [{ path, rule: 'schema', message }];
    }
    try {
      typedRule(schema, rule);
      return [];
    } catch (error) {
      if (error instanceof RuleError) return [ruleProblem(rule.text, error, path)];
      throw error;
    }
  });
}

/** Keeps schemas from losing what a rule speaks of. With a whole table its rules hold for nobody. */
export const guardRules: SchemaGuard = async (transaction, schemas) => {
  const { rows } = await transaction.query<DefinitionContent>(sql`
    select name, relations, fields, permissions, conditions, act_as as "actAs" from penstock.resource_definitions
    where name = any(${[...schemas.keys()]}) and permissions::text like '%"rule"%'`);
  for (const stored of rows) {
    const schema = schemas.get(stored.name);
    const [problem] = schema ? recordRuleProblems(parsedDefinition(stored), schema) : [];
    if (problem)
      throw schemaErrors.FIELD_IN_USE({
        message: `The resource definition ${stored.name} has a rule about this field (${problem.path}, ${problem.message}): change the definition first`,
      });
  }
};

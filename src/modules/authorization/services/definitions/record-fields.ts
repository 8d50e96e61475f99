/** The fields of records that definitions take relations from: what they are in the schemas of now. */

import { isDeepStrictEqual } from 'node:util';
import { type CompiledRule, ruleProblem } from '../../../../data/rules/rule.ts';
import { RuleError } from '../../../../data/rules/syntax.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../../data/schema/errors.ts';
import type { SchemaGuard } from '../../../../data/schema/registry/registry.ts';
import { callerKey, system } from '../../../../kernel/caller.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { cutText } from '../../../../kernel/text.ts';
import { rulesIn, typedRule } from '../../engine/record-rules.ts';
import type { Definition } from '../../model/definition.ts';
import { invalidDefinition, isFromField, type RecordField } from '../../model/definition.ts';
import { definitionsLock } from './models.ts';
import { saveDefinition } from './queries.ts';
import {
  type DefinitionContent,
  parsedDefinition,
  type StoredDefinition,
  validDefinitions,
} from './stored-definition.ts';

export interface FieldBinding {
  readonly fields: Readonly<Record<string, RecordField>>;
  /** What cannot be found, or cannot be a relation. */
  readonly problems: readonly Problem[];
}

/** Looks the fields of a definition up in the schema of its name. */
export function bindFields(
  { name, relations }: Pick<DefinitionContent, 'name' | 'relations'>,
  schema: CompiledSchema | undefined,
): FieldBinding {
  const fields: Record<string, RecordField> = {};
  const problems: Problem[] = [];
  for (const [relation, value] of Object.entries(relations)) {
    if (!isFromField(value)) continue;
    const found = fieldOf(schema, name, value.from);
    if (typeof found === 'string')
      problems.push({ path: `relations.${relation}.from`, rule: 'field', message: found });
    else fields[relation] = { ...found, type: value.type ?? found.type };
  }
  return { fields, problems };
}

/** The field, or why it cannot be taken. */
function fieldOf(
  schema: CompiledSchema | undefined,
  name: string,
  field: string,
): RecordField | string {
  if (!schema) return `no schema is called "${cutText(name, 64)}": declare it first`;
  if (schema.mapping)
    return `${name} is laid over a table of others, whose fields are no relations`;
  const link = schema.relations.get(field);
  const type = schema.layout.columns[field]?.type;
  if (!link)
    return `"${cutText(field, 64)}" is not a relation of the schema ${name}, nor a list of relations`;
  if (type !== (link.many ? 'uuid[]' : 'uuid'))
    return `"${field}" leads to records of ${link.model}, which have ids of another kind`;
  return { field, many: link.many, type: link.model };
}

/** The definition with its fields. Throws 400 for those that are not there, unless they may come later. */
export function withFields<T extends DefinitionContent>(
  content: T,
  schema: CompiledSchema | undefined,
  mayCome = false,
): T {
  const { fields, problems } = bindFields(content, schema);
  if (problems.length > 0 && !mayCome) throw invalidDefinition(problems);
  return { ...content, fields };
}

/** True when fields came that a definition waited for, or the schema went. Of a schema that is there nothing is lost (`guardFields`). */
export function needsBinding(
  { fields = {}, ...definition }: StoredDefinition,
  schema: CompiledSchema | undefined,
): boolean {
  // What cannot be read counts for nothing, and waits for whoever mends it.
  if (validDefinitions([definition]).length === 0) return false;
  const found = Object.keys(bindFields(definition, schema).fields);
  return schema === undefined
    ? Object.keys(fields ?? {}).length > 0
    : found.some((relation) => fields?.[relation] === undefined);
}

/**
 * Keeps schemas from losing a field that a definition takes a relation from; with a table, its relations go in the same
 * transaction. Statements over fields are right as long as that is so: no definition changes until the commit, neither
 * between the look at it and what is written of it, nor to one that takes a field which goes.
 */
export const guardFields: SchemaGuard = async (transaction, schemas) => {
  await transaction.query({ text: `select pg_advisory_xact_lock(${definitionsLock})` });
  const { rows } = await transaction.query<StoredFields>(sql`
    select id, name, relations, fields, permissions, conditions, act_as as "actAs", version
    from penstock.resource_definitions where name = any(${[...schemas.keys()]}) and fields <> '{}'`);
  for (const stored of rows) {
    const schema = schemas.get(stored.name);
    if (!schema) {
      await saveDefinition(transaction, { ...stored, fields: {} }, callerKey(system('schemas')));
      continue;
    }
    if (validDefinitions([stored]).length === 0) continue;
    const { fields } = bindFields(stored, schema);
    const [lost] = Object.entries(stored.fields).filter(
      ([relation, field]) => !isDeepStrictEqual(fields[relation], field),
    );
    if (lost)
      throw schemaErrors.FIELD_IN_USE({
        message: `The resource definition ${stored.name} takes the relation "${lost[0]}" from the field "${lost[1].field}": change the definition first`,
      });
  }
};

type StoredFields = Omit<StoredDefinition, 'createdAt' | 'updatedAt' | 'fields'> &
  Required<Pick<StoredDefinition, 'fields'>>;

/* Rules of definitions held against the schemas whose records they are about. */

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

/** What is wrong with the rules of a definition that is written now: values that no rule can have too. */
export function declaredRuleProblems(
  definition: Definition,
  schema: CompiledSchema | undefined,
): readonly Problem[] {
  const problems = recordRuleProblems(definition, schema);
  if (problems.length > 0 || !schema) return [...problems, ...conditionProblems(definition)];
  const ofRecords = [...definition.actions.values()]
    .flatMap(rulesIn)
    .flatMap((rule) => valuelessProblems(typedRule(schema, rule), `${rule.place}.rule`));
  return [...ofRecords, ...conditionProblems(definition)];
}

const conditionProblems = ({ conditions }: Definition): readonly Problem[] =>
  [...conditions].flatMap(([name, condition]) =>
    condition.kind === 'rule' ? valuelessProblems(condition.rule, `conditions.${name}.rule`) : [],
  );

const valuelessProblems = (rule: CompiledRule, path: string): readonly Problem[] =>
  rule.valueless().map((error) => ruleProblem(rule.text, error, path));

/** Throws 400 for rules that are none over these records. */
export function requireSoundRules(
  content: DefinitionContent,
  schema: CompiledSchema | undefined,
): void {
  const problems = declaredRuleProblems(parsedDefinition(content), schema);
  if (problems.length > 0) throw invalidDefinition(problems);
}

/** Keeps schemas from losing what a rule speaks of. With a whole table its rules hold for nobody. */
export const guardRules: SchemaGuard = async (transaction, schemas) => {
  const { rows } = await transaction.query<DefinitionContent>(sql`
    select name, relations, fields, permissions, conditions, act_as as "actAs" from penstock.resource_definitions
    where name = any(${[...schemas.keys()]}) and permissions::text like '%"rule"%'`);
  for (const stored of rows) {
    const schema = schemas.get(stored.name);
    const [definition] = validDefinitions([stored]);
    const [problem] = schema && definition ? recordRuleProblems(definition, schema) : [];
    if (problem)
      throw schemaErrors.FIELD_IN_USE({
        message: `The resource definition ${stored.name} has a rule about this field (${problem.path}, ${problem.message}): change the definition first`,
      });
  }
};

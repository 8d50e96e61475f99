/**
 * The action that an endpoint asks of its callers: what must be right about it, and what it means in a call. And all
 * actions that this module asks for, of endpoints and of fields.
 */
import type { Grant } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { readRuleOf, writeRuleOf } from '../../../../data/schema/language/field.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { ActionUse } from '../../../../kernel/action-uses.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { type EndpointDefinition, type EndpointRequires, endpointOperation } from './definition.ts';

interface CheckContext {
  readonly endpoint: EndpointDefinition;
  readonly schema: CompiledSchema;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
}

const rowAuthorised = (schema: CompiledSchema | undefined): boolean =>
  schema?.modelOptions.conduit.authorization.enabled === true;

export function requiresProblems(
  { endpoint, schema, schemas }: CheckContext,
  { record }: EndpointRequires,
): readonly Problem[] {
  const problem = (path: string, rule: string, message: string): readonly Problem[] => [
    { path: `requires${path}`, rule, message },
  ];
  if (!endpoint.authentication)
    return problem('', 'authentication', 'needs authentication: visitors have no actions');
  if (!record) {
    if (endpoint.operation === endpointOperation.post)
      return problem('.record', 'required', 'a create means no record that is there: name one');
    return rowAuthorised(schema)
      ? []
      : problem('', 'authorization', `${schema.name} has no row authorization: name a record`);
  }
  if (!rowAuthorised(schemas.get(record.schema)))
    return problem('.record.schema', 'authorization', 'must be a schema with row authorization');
  const input = endpoint.inputs.find(({ name }) => name === record.input);
  const isId =
    input !== undefined &&
    ['String', 'ObjectId', 'Relation'].includes(input.type) &&
    !input.array &&
    !input.optional;
  return isId
    ? []
    : problem('.record.input', 'reference', 'must be an input of one id that is not optional');
}

/** The actions that stored endpoints ask for. */
const usesOfEndpoints = (endpoints: readonly EndpointDefinition[]): readonly ActionUse[] =>
  endpoints.flatMap(({ name, selectedSchemaName, requires }) =>
    requires
      ? [
          {
            schema: requires.record?.schema ?? selectedSchemaName,
            action: requires.action,
            module: 'database',
            type: 'customEndpoints',
            key: name,
            title: `the custom endpoint "${name}"`,
          },
        ]
      : [],
  );

/** The actions and relations that fields of schemas with row authorization ask for (`access`). */
const usesOfFields = (schemas: readonly CompiledSchema[]): readonly ActionUse[] =>
  schemas.filter(rowAuthorised).flatMap(({ name, tree }) =>
    [...tree.fields].flatMap(([field, options]) => {
      const rules = [readRuleOf(options), writeRuleOf(options)];
      const asked = rules.flatMap((rule) => (rule.kind === 'relation' ? [rule.name] : []));
      return [...new Set(asked)].map((action) => ({
        schema: name,
        action,
        module: 'database',
        type: 'schemas',
        key: name,
        title: `the field "${field}" of ${name}`,
      }));
    }),
  );

export const usesOf = (
  endpoints: readonly EndpointDefinition[],
  schemas: readonly CompiledSchema[],
): readonly ActionUse[] => [...usesOfEndpoints(endpoints), ...usesOfFields(schemas)];

/** What the record engine asks. */
export function grantOf(
  { requires }: EndpointDefinition,
  inputs: ReadonlyMap<string, unknown>,
): Pick<Grant, 'action' | 'needs'> {
  if (!requires) return {};
  const { action, record } = requires;
  if (!record) return { action };
  const id = String(inputs.get(record.input));
  return { needs: { schema: record.schema, id, action, place: record.input } };
}

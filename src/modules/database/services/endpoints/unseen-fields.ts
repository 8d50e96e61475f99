/** Fields that an endpoint asks and that no client may ask: their read rules show them to none, or in some records only. */
import { leavesOf } from '../../../../data/conditions/condition.ts';
import { visibleSchema } from '../../../../data/records/access/field-access.ts';
import { PathError, resolveTarget } from '../../../../data/records/filter/target.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import type { EndpointDefinition } from './definition.ts';
import { USER_SCHEMA } from './filter-values.ts';
import { readsUser, treeCondition } from './parse-tree.ts';

interface Asked {
  readonly endpoint: EndpointDefinition;
  readonly schema: CompiledSchema;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
}

/** A user with every role: whoever sees most without a look at the record. */
const insider = {
  caller: {
    kind: 'user',
    userId: '',
    sessionId: '',
    authenticatedAt: 0,
    complete: true,
    clientId: '',
  },
  roles: { has: () => true },
} as const;

/** Of an endpoint without other problems. The rules may change: so they are told, and are no reason to refuse it. */
export function unseenFields({ endpoint, schema, schemas }: Asked): readonly Problem[] {
  const seen = (one: CompiledSchema | undefined) => one && visibleSchema(one, insider);
  const access = { schema: (name: string) => seen(schemas.get(name)), hidden: false };
  return askedPaths(endpoint).flatMap(([place, path]): readonly Problem[] => {
    try {
      resolveTarget(visibleSchema(schema, insider), path, access);
      return [];
    } catch (error) {
      if (!(error instanceof PathError)) throw error;
      const message = `the read rule of "${path}" shows it to no client, or in some records only: every call by a client is 400`;
      return [{ path: place, rule: 'access', message }];
    }
  });
}

/**
 * Schemas that its conditions lead through, and that of users where it uses more of its caller than the id. A path that
 * leads nowhere is refused or not served, and tells nothing.
 */
export function followedSchemas(
  endpoint: EndpointDefinition,
  schemas: Pick<SchemaRegistry, 'get'>,
): readonly CompiledSchema[] {
  const schema = schemas.get(endpoint.selectedSchemaName);
  if (!schema) return [];
  const access = { schema: (name: string) => schemas.get(name), hidden: true };
  const through = readablePaths(endpoint).flatMap(([, path]) => {
    try {
      return resolveTarget(schema, path, access).hops.map(({ target }) => target);
    } catch (error) {
      if (error instanceof PathError) return [];
      throw error;
    }
  });
  const users = usesCaller(endpoint) ? schemas.get(USER_SCHEMA) : undefined;
  return users ? [...through, users] : through;
}

function usesCaller(endpoint: EndpointDefinition): boolean {
  try {
    return readsUser(endpoint);
  } catch {
    return false;
  }
}

/** Of a document of a state that could not be completed, and is refused for that, none. */
function readablePaths(endpoint: EndpointDefinition): ReturnType<typeof askedPaths> {
  try {
    return askedPaths(endpoint);
  } catch {
    return [];
  }
}

/** What an endpoint compares, groups and sums up, each with its place. */
function askedPaths({
  query,
  aggregate,
}: EndpointDefinition): readonly (readonly [string, string])[] {
  const condition = treeCondition(query);
  const compared = condition
    ? [...leavesOf(condition)].flatMap(({ left, test, place }) => [
        [`${place}.schemaField`, left.path] as const,
        ...('right' in test && test.right.kind === 'field'
          ? [[`${place}.comparisonField.value`, test.right.path] as const]
          : []),
      ])
    : [];
  const { groupBy = [], values = [] } = aggregate ?? {};
  return [
    ...compared,
    ...groupBy.map((path, i) => [`aggregate.groupBy.${i}`, path] as const),
    ...values.flatMap(({ field }, i) =>
      field === undefined ? [] : [[`aggregate.values.${i}.field`, field] as const],
    ),
  ];
}

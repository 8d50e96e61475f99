/** All tools of the admin surface, made from the operation registry when they are first asked for. */
import type { Operation } from '../../kernel/operation.ts';
import { isStreamed } from '../../kernel/operation.ts';
import { jsonSchema } from '../../kernel/operations/json-schema.ts';
import type { OperationRegistry, OwnedOperation } from '../../kernel/registry.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { compare } from '../openapi/schemas.ts';
import { groupOf, groupOfModule } from './groups.ts';
import type { McpSource } from './options.ts';
import { createTool, type Tool, type ToolFacts, withDigest } from './tool.ts';

export interface Catalogue {
  /** By group, then by name. */
  readonly tools: readonly Tool[];
  readonly byName: ReadonlyMap<string, Tool>;
  readonly groups: ReadonlySet<string>;
}

/** The catalogue of the moment. The next question after a change of routes or options makes it anew. */
export function createCatalogue(registry: OperationRegistry, source: McpSource, log: Logger): () => Catalogue {
  let made: Catalogue | undefined;
  const forget = (): void => {
    made = undefined;
  };
  registry.onChange(forget);
  source.onChange(forget);
  return () => {
    made ??= build(registry.all(), source, log);
    return made;
  };
}

function build(operations: readonly OwnedOperation[], source: McpSource, log: Logger): Catalogue {
  const { allowSecrets } = source.current();
  const facts = operations
    .filter(({ operation }) => isTool(operation) && (allowSecrets || !operation.answersSecret))
    .flatMap(({ owner, operation }) =>
      operation.perModule ? perModule(operation, source) : [{ operation, group: groupOf(owner, operation) }],
    );
  const byName = new Map<string, Tool>();
  for (const tool of facts.map(createTool)) byName.set(freeName(tool, byName, log), tool);
  const named = [...byName].map(([name, tool]) =>
    name === tool.name ? tool : { ...tool, name, description: { ...tool.description, name } },
  );
  const tools = named.sort((a, b) => compare(a.group, b.group) || compare(a.name, b.name));
  return { tools, byName: new Map(tools.map((tool) => [tool.name, tool])), groups: new Set(tools.map(({ group }) => group)) };
}

const isTool = (operation: Operation): boolean => operation.surface === 'admin' && operation.mcp !== false && !isStreamed(operation);

/** `get_config_authentication` belongs to authentication and knows its keys. */
function perModule(operation: Operation, source: McpSource): ToolFacts[] {
  return source.configDocuments().map(({ module, owner, schema }) => ({
    operation,
    group: groupOfModule(module),
    module: owner,
    fixed: { module },
    ...(operation.perModule === 'config' ? { body: optional(jsonSchema(schema)) } : {}),
  }));
}

/** A change names the keys that it changes. */
const optional = (schema: ReturnType<typeof jsonSchema>): ReturnType<typeof jsonSchema> => {
  const { required: _all, ...others } = schema;
  const properties = Object.entries(others.properties ?? {}).map(([name, property]) => [
    name,
    property.properties ? optional(property) : property,
  ]);
  return { ...others, properties: Object.fromEntries(properties) };
};

/** Two paths may differ only in what a name drops; the later one gets a digest. */
function freeName({ name, operation }: Tool, taken: ReadonlyMap<string, Tool>, log: Logger): string {
  const other = taken.get(name);
  if (!other) return name;
  const free = withDigest(name, `${operation.method} ${operation.path}`);
  log.warn(
    { tool: name, operation: operation.id, other: other.operation.id },
    `Two operations have the same tool name; this one is called ${free}`,
  );
  return free;
}

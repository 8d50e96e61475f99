/** The tools of one request: what its address loads, less what its credential may not do. */
import { hasAuthority, withinScopes } from '../../kernel/authority.ts';
import type { AdminCaller, Caller } from '../../kernel/caller.ts';
import { jsonSchema } from '../../kernel/operations/json-schema.ts';
import { isStreamed, type Operation } from '../../kernel/operations/operation.ts';
import {
  moduleOf,
  type OperationRegistry,
  type OwnedOperation,
} from '../../kernel/operations/registry.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { compare } from '../openapi/schemas.ts';
import type { McpSource } from './options.ts';
import { createTool, type Tool, type ToolFacts, withDigest } from './tool.ts';

/* Groups of tools: what `?modules=` loads (interface 4.9, spec/core.md 9.4). */

/** Loaded without being asked for. */
const coreGroup = 'core';

/** The three channels were modules of their own once; their names still load their part. */
const channels: ReadonlySet<string> = new Set(['email', 'push', 'sms']);
const communications = 'communications';

/** The group of an operation: its module, not its path. */
function groupOf(owner: string, { path }: Pick<Operation, 'path'>): string {
  const module = moduleOf(owner);
  if (module !== communications) return groupOfModule(module);
  const [, first = ''] = path.split('/');
  return channels.has(first) ? first : communications;
}

/** `admin` is a configuration document of core. */
const groupOfModule = (module: string): string => (module === 'admin' ? coreGroup : module);

interface LoadedGroups {
  has(group: string): boolean;
  /** Names that were asked for and that nobody has. */
  readonly unknown: readonly string[];
}

/** What the address of the request asks for: `modules=a,b`, or `modules=all`. */
function loadedGroups(asked: string | undefined, existing: ReadonlySet<string>): LoadedGroups {
  const names = (asked ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '');
  if (names.includes('all')) return { has: () => true, unknown: [] };
  const loaded = new Set([
    coreGroup,
    ...names.flatMap((name) => (name === communications ? [communications, ...channels] : [name])),
  ]);
  return {
    has: (group) => loaded.has(group),
    unknown: names.filter((name) => !existing.has(name) && name !== communications),
  };
}

/* All tools of the admin surface, made from the operation registry when they are first asked for. */

export interface Catalogue {
  /** By group, then by name. */
  readonly tools: readonly Tool[];
  readonly byName: ReadonlyMap<string, Tool>;
  readonly groups: ReadonlySet<string>;
}

/** The catalogue of the moment. The next question after a change of routes or options makes it anew. */
export function createCatalogue(
  registry: OperationRegistry,
  source: McpSource,
  log: Logger,
): () => Catalogue {
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
      operation.perModule
        ? perModule(operation, source)
        : [{ operation, group: groupOf(owner, operation) }],
    );
  const byName = new Map<string, Tool>();
  for (const tool of facts.map(createTool)) byName.set(freeName(tool, byName, log), tool);
  const named = [...byName].map(([name, tool]) =>
    name === tool.name
      ? tool
      : {
          ...tool,
          name,
          description: { ...tool.description, name },
          listed: { ...tool.listed, name },
        },
  );
  const tools = named.sort((a, b) => compare(a.group, b.group) || compare(a.name, b.name));
  return {
    tools,
    byName: new Map(tools.map((tool) => [tool.name, tool])),
    groups: new Set(tools.map(({ group }) => group)),
  };
}

const isTool = (operation: Operation): boolean =>
  operation.surface === 'admin' && operation.mcp !== false && !isStreamed(operation);

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

const namesOf = (properties: object): string => Object.keys(properties).join(', ');

/** A change names the keys that it changes. A group of keys is described by them, unless it says more. */
const optional = (schema: ReturnType<typeof jsonSchema>): ReturnType<typeof jsonSchema> => {
  const { required: _all, ...others } = schema;
  const properties = Object.entries(others.properties ?? {}).map(([name, property]) => [
    name,
    property.properties
      ? { description: `Settings: ${namesOf(property.properties)}`, ...optional(property) }
      : property,
  ]);
  return { ...others, properties: Object.fromEntries(properties) };
};

/** Two paths may differ only in what a name drops; the later one gets a digest. */
function freeName(
  { name, operation }: Tool,
  taken: ReadonlyMap<string, Tool>,
  log: Logger,
): string {
  const other = taken.get(name);
  if (!other) return name;
  const free = withDigest(name, `${operation.method} ${operation.path}`);
  log.warn(
    { tool: name, operation: operation.id, other: other.operation.id },
    `Two operations have the same tool name; this one is called ${free}`,
  );
  return free;
}

export interface Toolbox {
  /** In the order in which they are listed. */
  readonly loaded: readonly Tool[];
  /** Loaded or not. */
  readonly all: readonly Tool[];
  readonly dynamic: boolean;
  /** Modules that were asked for and do not exist. */
  readonly unknown: readonly string[];
  find(name: string): Tool | undefined;
  groups(): readonly {
    readonly name: string;
    readonly toolCount: number;
    readonly loaded: boolean;
  }[];
}

interface ToolboxParts {
  readonly catalogue: Catalogue;
  readonly caller: Caller;
  /** The query parameter `modules`. */
  readonly modules: string | undefined;
  readonly dynamic: boolean;
}

/** Tools that would answer 403 are no help to a model. */
const isWithin = (caller: AdminCaller, { operation, module }: Tool): boolean =>
  withinScopes(caller, operation) &&
  (operation.unscoped !== true || hasAuthority(caller, { kind: 'credentials' })) &&
  (module === undefined || hasAuthority(caller, { kind: 'module', module }));

export function createToolbox({ catalogue, caller, modules, dynamic }: ToolboxParts): Toolbox {
  const groups: LoadedGroups = loadedGroups(modules, catalogue.groups);
  const scoped = caller.kind === 'admin' && caller.scopes !== undefined;
  const allowed = (tool: Tool): boolean => !scoped || isWithin(caller, tool);
  const all = scoped ? catalogue.tools.filter(allowed) : catalogue.tools;
  return {
    all,
    dynamic,
    unknown: groups.unknown,
    get loaded() {
      return all.filter(({ group }) => groups.has(group));
    },
    find(name) {
      const tool = catalogue.byName.get(name);
      return tool && groups.has(tool.group) && allowed(tool) ? tool : undefined;
    },
    groups() {
      const counts = new Map<string, number>();
      for (const { group } of all) counts.set(group, (counts.get(group) ?? 0) + 1);
      return [...counts].map(([name, toolCount]) => ({
        name,
        toolCount,
        loaded: groups.has(name),
      }));
    },
  };
}

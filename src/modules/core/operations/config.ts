/** The configuration of all modules. */
import Type from 'typebox';
import type { ModuleDirectory } from '../../../host/kernel.ts';
import { requireAuthority } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { moduleOfConfig } from '../../../kernel/config/config-definition.ts';
import type {
  ChangedConfig,
  ChangeOptions,
  ConfigService,
  StoredConfig,
} from '../../../kernel/config/config-service.ts';
import { errors, invalid, PenstockError } from '../../../kernel/errors.ts';
import { etagOf, expectedVersion, ifMatch } from '../../../kernel/operations/if-match.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { DecodedInput, OperationContext } from '../../../kernel/operations/operation-input.ts';
import { NullableTimestamp } from './shapes.ts';

/** `strict`: whether keys that are not known are refused instead of left out. */
export const configOperations = (
  config: ConfigService,
  modules: ModuleDirectory,
  strict: () => boolean,
): readonly Operation[] => [
  listAll(config),
  listModules(modules),
  get(config),
  change(config, strict),
  importAll(config, strict),
];

export const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
/** The answer says which nodes run the new version, which can only be known after the commit: so it is no part of a stored one. */
export const write = { ...facts, idempotency: false } as const;

const Tree = Type.Record(Type.String(), Type.Unknown());
const ModuleName = Type.String({ maxLength: 64, description: 'Name of the module' });
export const ModuleParam = Type.Object({ module: ModuleName });
const Configurations = Type.Object(
  { modules: Type.Record(Type.String(), Tree) },
  { description: 'Configurations by module' },
);
const ByName = Type.Optional(Type.Boolean({ description: 'In the order of names' }));
const revealQuery = Type.Object({
  reveal: Type.Optional(Type.Boolean({ description: 'Secrets in clear; for super admins only' })),
});

const Stored = Type.Object({
  config: Tree,
  version: Type.Integer(),
  updatedAt: NullableTimestamp,
  updatedBy: Type.Union([Type.String(), Type.Null()]),
});
export const Changed = Type.Object({
  ...Stored.properties,
  warnings: Type.Array(Type.String(), {
    description: 'Keys that are not known and were left out, and what else has no effect',
  }),
  applied: Type.Object({
    replicas: Type.Integer({ description: 'Nodes that run the new version' }),
    failed: Type.Array(Type.String(), { description: 'Nodes that kept the old one' }),
  }),
});

const reveals = ({ query }: DecodedInput): boolean => query.reveal === true;

const answer = (stored: StoredConfig): Reply =>
  Reply.json(JSON.stringify(stored), { etag: etagOf(stored.version) });

/** The answer is the whole configuration; what of it has changed is for the audit log. */
export const changed = ({ differences: _, ...stored }: ChangedConfig): Reply => answer(stored);

/** The audit log gets what really changes, in time to be written with it. */
export const noted = (context: OperationContext): Pick<ChangeOptions, 'onDecided'> => ({
  onDecided: (differences) => context.audited({ changes: { differences } }),
});

const listAll = (config: ConfigService): Operation =>
  defineOperation({
    ...facts,
    id: 'core.config.list',
    method: 'GET',
    path: '/config',
    reveals,
    input: { query: revealQuery },
    output: Type.Object({ config: Type.Object({ modules: Type.Record(Type.String(), Tree) }) }),
    summary: 'Read the configuration of all modules',
    description:
      'Secrets are masked as `********`. Writing that back leaves them as they are. A token that is narrowed to modules reads those.',
    async handler({ caller }, { query: { reveal = false } }) {
      const documents = await Promise.all(
        config
          .modulesFor(caller)
          .map(
            async (module) =>
              [module, (await config.read(caller, module, { reveal })).config] as const,
          ),
      );
      return { config: { modules: Object.fromEntries(documents) } };
    },
  });

const listModules = (modules: ModuleDirectory): Operation =>
  defineOperation({
    ...facts,
    id: 'core.config.modules',
    method: 'GET',
    path: '/config/modules',
    input: { query: Type.Object({ sortByName: ByName }) },
    output: Type.Object({
      modules: Type.Array(
        Type.Object({
          moduleName: Type.String(),
          url: Type.String({ description: 'Always `local`: all modules run in this process' }),
          serving: Type.Boolean(),
          note: Type.Optional(Type.String({ description: 'Why it does not serve' })),
        }),
      ),
    }),
    summary: 'List the modules',
    description: 'Modules of the 0.16 line that are parts of others today are listed too.',
    handler(_context, { query }) {
      const list = modules.list().flatMap(({ name, formerly = [], serving, note }) =>
        [name, ...formerly].map((moduleName) => ({
          moduleName,
          url: 'local',
          serving,
          ...(note ? { note } : {}),
        })),
      );
      return {
        modules: query.sortByName
          ? list.sort((a, b) => (a.moduleName < b.moduleName ? -1 : 1))
          : list,
      };
    },
  });

const get = (config: ConfigService): Operation =>
  defineOperation({
    ...facts,
    id: 'core.config.get',
    method: 'GET',
    path: '/config/:module',
    perModule: 'name',
    about: { module: 'config' },
    reveals,
    input: { params: ModuleParam, query: revealQuery },
    output: Stored,
    errors: [errors.NOT_FOUND],
    summary: 'Read the configuration of a module',
    description: 'The header ETag has the version, for If-Match.',
    handler: async ({ caller }, { params, query: { reveal = false } }) =>
      answer(await config.read(caller, params.module, { reveal })),
  });

const change = (config: ConfigService, strict: () => boolean): Operation =>
  defineOperation({
    ...write,
    id: 'core.config.change',
    method: 'PATCH',
    path: '/config/:module',
    perModule: 'config',
    about: { module: 'config' },
    aliases: [{ method: 'PUT', path: '/config/:module' }],
    input: {
      params: ModuleParam,
      query: Type.Object({
        replace: Type.Optional(
          Type.Boolean({
            description: 'The body is the whole configuration; the rest goes back to its default',
          }),
        ),
        force: Type.Optional(
          Type.Boolean({
            description: 'Also where the module says that something is in the way (409)',
          }),
        ),
      }),
      headers: ifMatch,
      body: Type.Record(Type.String(), Type.Unknown(), {
        description: 'The keys to change, bare or within `config`. null goes back to the default.',
      }),
    },
    output: Changed,
    errors: [errors.NOT_FOUND, errors.PRECONDITION_FAILED, errors.CONFLICT],
    summary: 'Change the configuration of a module',
    description:
      'Validated, stored, and applied on every node before it answers. Lists are replaced, objects are merged.',
    auditChanges: ({ params, body }) => maskedBody(config, String(params.module), body),
    async handler(context, { params, query, headers, body }) {
      const patch = unwrapped(config, params.module, body);
      return changed(
        await config.change(context.caller, params.module, patch, {
          ...noted(context),
          replace: query.replace === true,
          force: query.force === true,
          strict: strict(),
          ...expectedVersion(headers['if-match']),
        }),
      );
    },
  });

/** `{config: {...}}` and the bare keys mean the same; no module has a key `config` of its own. */
function unwrapped(
  config: ConfigService,
  module: string,
  body: Record<string, unknown>,
): Record<string, unknown> {
  if (!Object.hasOwn(body, 'config') || config.definition(module)?.schema.properties.config)
    return body;
  if (!isObject(body.config)) throw invalid('config', 'type', 'must be an object');
  return body.config;
}

/** What was asked for, where nothing came of it. */
function maskedBody(config: ConfigService, module: string, body: unknown): unknown {
  if (!isObject(body)) return undefined;
  const wrapped = isObject(body.config) && !config.definition(module)?.schema.properties.config;
  return {
    body: config.maskPatch(module, wrapped ? (body.config as Record<string, unknown>) : body),
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const importAll = (config: ConfigService, strict: () => boolean): Operation =>
  defineOperation({
    ...write,
    id: 'core.config.import',
    method: 'POST',
    path: '/config/import',
    destructive: true,
    about: { config: 'inside' },
    input: {
      body: Type.Object({ config: Configurations }),
    },
    output: Type.Object({
      results: Type.Record(
        Type.String(),
        Type.Object({ success: Type.Boolean(), error: Type.Optional(Type.String()) }),
      ),
    }),
    summary: 'Change the configuration of several modules',
    description:
      'Each as a PATCH, in the order of the names; one that fails does not stop the others. `core` is refused.',
    auditAtEnd: true,
    auditChanges: ({ body }) => maskedImport(config, body),
    async handler({ caller }, { body }) {
      requireAuthorityOver(config, caller, Object.keys(body.config.modules));
      const results: (readonly [string, { success: boolean; error?: string }])[] = [];
      for (const [module, patch] of Object.entries(body.config.modules).sort(byName)) {
        results.push([
          module,
          await importOne(config, caller, { module, patch, strict: strict() }),
        ]);
      }
      return { results: Object.fromEntries(results) };
    },
  });

/** Throws 403 before the first change. */
function requireAuthorityOver(
  config: ConfigService,
  caller: Caller,
  names: readonly string[],
): void {
  const modules = names.map((name) => moduleOfConfig(name, config.definition(name) ?? {}));
  requireAuthority(caller, ...modules.map((module) => ({ kind: 'module', module }) as const));
}

function maskedImport(config: ConfigService, body: unknown): unknown {
  const { modules } = (
    body as {
      readonly config: { readonly modules: Readonly<Record<string, Record<string, unknown>>> };
    }
  ).config;
  return {
    modules: Object.fromEntries(
      Object.entries(modules).map(([module, patch]) => [module, config.maskPatch(module, patch)]),
    ),
  };
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number =>
  a < b ? -1 : 1;

interface OneImport {
  readonly module: string;
  readonly patch: Record<string, unknown>;
  readonly strict: boolean;
}

async function importOne(
  config: ConfigService,
  caller: Caller,
  { module, patch, strict }: OneImport,
) {
  if (module === 'core')
    return { success: false, error: 'core cannot be imported: change it with PATCH /config/core' };
  try {
    await config.change(caller, module, patch, { strict });
    return { success: true };
  } catch (error) {
    if (error instanceof PenstockError && error.status < 500)
      return { success: false, error: error.message };
    throw error;
  }
}

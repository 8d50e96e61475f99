/** The state of the platform as one document, for version control (spec/core.md section 8). */
import Type from 'typebox';
import { canonicalTextInSlices } from '../../../kernel/canonical.ts';
import { errors } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { DecodedInput, OperationContext } from '../../../kernel/operations/operation-input.ts';
import { mapInSlices } from '../../../kernel/time-slices.ts';
import type { ImportResult } from '../services/state/apply.ts';
import type { StatePlan } from '../services/state/plan.ts';
import type { ExportedState, State } from '../services/state/platform-state.ts';
import { stateYaml } from '../services/state/state-yaml.ts';

export const stateOperations = (state: State): readonly Operation[] => [
  exportState(state),
  planState(state),
  importState(state),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit, graphql: false } as const;
/** Larger installations import in parts. */
const bodyLimit = 16 * 1024 * 1024;

const Tree = Type.Record(Type.String(), Type.Unknown());
const flag = (description: string) => Type.Optional(Type.Boolean({ default: false, description }));

/** Read by services/state/document.ts, which names everything that is wrong at once. */
const StateDocument = Type.Object(
  {
    formatVersion: Type.Optional(
      Type.Unknown({ description: '1; taken for 1 when it is missing' }),
    ),
    configs: Type.Optional(
      Type.Unknown({
        description: '`{"modules": {"<module>": {...}}}`: keys to change; others stay',
      }),
    ),
    modules: Type.Optional(
      Type.Unknown({ description: '`{"<module>": {"<type>": [documents]}}`' }),
    ),
    platformVersion: Type.Optional(Type.Unknown({ description: 'What made it; of no effect' })),
    exportedAt: Type.Optional(Type.Unknown({ description: 'Of no effect' })),
    checksum: Type.Optional(
      Type.Unknown({ description: 'Of configs and modules; another one gives a warning' }),
    ),
    secrets: Type.Optional(
      Type.Unknown({
        description: 'Values of references, by reference: `{"<module>.<path>": "..."}`',
      }),
    ),
  },
  { additionalProperties: true, description: 'What `GET /state/export` answers, or a part of it' },
);

const Difference = Type.Object({
  path: Type.String({ description: 'Dotted' }),
  from: Type.Unknown({ description: 'null: nothing' }),
  to: Type.Unknown({ description: 'null: nothing' }),
});

const PlanEntry = Type.Object({
  action: Type.Enum(['create', 'update', 'delete', 'noop']),
  module: Type.String(),
  type: Type.String({ description: '`config`: the configuration of the module' }),
  key: Type.String(),
  diff: Type.Array(Difference),
  skipped: Type.Optional(
    Type.Boolean({ description: 'It differs, and onConflict=skip leaves it' }),
  ),
  renames: Type.Optional(
    Type.Array(Type.Object({ from: Type.String(), to: Type.String() }), {
      description: 'Fields that get another name and keep their data',
    }),
  ),
  hides: Type.Optional(
    Type.Array(Type.Object({ field: Type.String(), records: Type.Integer() }), {
      description: 'Fields that are taken away; their data is kept, and comes back with them',
    }),
  ),
});

const planFields = {
  plan: Type.Array(PlanEntry),
  checksum: Type.String({ description: 'Of the plan, for `confirm`' }),
  warnings: Type.Array(Type.String()),
};
const Obstacle = Type.Object({ path: Type.String(), rule: Type.String(), message: Type.String() });
const Plan = Type.Object({
  ...planFields,
  obstacles: Type.Array(Obstacle, {
    description: 'Why an import of it would be refused as things are now',
  }),
});

const planQuery = {
  prune: flag('Take away what the document does not have, of the types that it has'),
  onConflict: Type.Optional(
    Type.Enum(['overwrite', 'skip', 'fail'], {
      default: 'overwrite',
      description:
        'For things that are there with another content: change them, leave them, or refuse the import',
    }),
  ),
};

interface PlanQuery {
  readonly prune?: boolean;
  readonly onConflict?: 'overwrite' | 'skip' | 'fail';
}

const requestOf = ({ prune = false, onConflict = 'overwrite' }: PlanQuery) => ({
  prune,
  onConflict,
});

/** In slices: there may be thousands of entries. */
async function planView({ entries, checksum, warnings, refusals }: StatePlan): Promise<Reply> {
  const texts = await mapInSlices(entries, (entry) => JSON.stringify(entry));
  const rest = JSON.stringify({ checksum, warnings, obstacles: refusals.problems() });
  return Reply.json(`{"plan":[${texts.join()}],${rest.slice(1)}`);
}

/** The audit log learns how much of what was sent; the plan, which knows the secrets, says what changed. */
function sentParts({ query, body }: Pick<DecodedInput, 'query' | 'body'>): unknown {
  const { configs, modules } = body as { readonly configs?: unknown; readonly modules?: unknown };
  return {
    query,
    configs: keysOf(
      keysOf(configs).includes('modules') ? (configs as { modules: unknown }).modules : {},
    ),
    modules: keysOf(modules),
  };
}

const keysOf = (value: unknown): readonly string[] =>
  typeof value === 'object' && value !== null ? Object.keys(value) : [];

/** Changes that one row of the audit log names. */
const MAX_AUDITED = 500;

/** What of the plan is worth keeping: what changed, and not to what. */
function auditPlan(context: OperationContext, { entries, checksum }: StatePlan): void {
  const all = entries.filter(({ action }) => action !== 'noop');
  const changes = all.slice(0, MAX_AUDITED).map(({ action, module, type, key, diff }) => ({
    action,
    what: `${module}.${type}`,
    key,
    paths: diff.map(({ path }) => path),
  }));
  context.audited({ changes: { checksum, count: all.length, changes } });
}

const Format = Type.Enum(['json', 'yaml'], {
  default: 'json',
  description: 'How the document is written',
});

const exportState = (state: State): Operation =>
  defineOperation({
    ...facts,
    id: 'core.state.export',
    about: { modules: 'inside', types: 'inside' },
    method: 'GET',
    path: '/state/export',
    audit: true,
    reveals: ({ query }) => query.secrets === 'include',
    deadlineMs: 120_000,
    textAnswer: 'The same document, for `format=yaml`.',
    textType: 'application/yaml',
    input: {
      query: Type.Object({
        format: Type.Optional(Format),
        secrets: Type.Optional(
          Type.Enum(['redact', 'include'], {
            default: 'redact',
            description: 'References instead of secrets, or the secrets (super admins)',
          }),
        ),
        modules: Type.Optional(
          Type.Array(Type.String({ maxLength: 64 }), {
            maxItems: 64,
            description: 'Only these modules',
          }),
        ),
        types: Type.Optional(
          Type.Array(Type.String({ maxLength: 128 }), {
            maxItems: 64,
            description:
              'Only these types: `schemas`, or `database.schemas`; `config` for the configurations',
          }),
        ),
      }),
    },
    output: Type.Object({
      formatVersion: Type.Integer(),
      platformVersion: Type.String(),
      checksum: Type.String({ description: 'Of configs and modules' }),
      configs: Type.Object({ modules: Type.Record(Type.String(), Tree) }),
      modules: Type.Record(Type.String(), Type.Record(Type.String(), Type.Array(Tree))),
    }),
    errors: [errors.NOT_FOUND],
    summary: 'Export the state of the platform',
    description:
      'Configuration, schemas, endpoints, permissions, templates and what else modules contribute, without ids, times and secrets. Equal states give equal bytes.',
    async handler({ caller }, { query: { format = 'json', secrets = 'redact', modules, types } }) {
      const exported = await state.export(caller, {
        modules,
        types,
        reveal: secrets === 'include',
      });
      if (format === 'yaml')
        return Reply.text(await stateYaml(exported), 'application/yaml; charset=utf-8');
      return Reply.json(await jsonOf(exported));
    },
  });

/** The documents are in their canonical form already, so that this is the text of the whole. */
async function jsonOf({ modules, ...head }: ExportedState): Promise<string> {
  return `${JSON.stringify(head).slice(0, -1)},"modules":${await canonicalTextInSlices(modules)}}`;
}

const planState = (state: State): Operation =>
  defineOperation({
    ...facts,
    id: 'core.state.plan',
    about: { configs: 'inside', modules: 'inside' },
    method: 'POST',
    path: '/state/plan',
    readOnly: true,
    strict: true,
    idempotency: false,
    bodyLimit,
    deadlineMs: 120_000,
    input: { query: Type.Object(planQuery), body: StateDocument },
    output: Plan,
    errors: [errors.CONFLICT, errors.PRECONDITION_FAILED],
    summary: 'Compare a document with the state of the platform',
    description:
      'What an import would do, without doing it; with the document of the last import: what has drifted since.',
    handler: async ({ caller }, { query, body }) =>
      planView(await state.plan(caller, body, requestOf(query))),
  });

const TypeOutcome = Type.Object({
  created: Type.Integer(),
  updated: Type.Integer(),
  deleted: Type.Integer(),
  unchanged: Type.Integer(),
  skipped: Type.Integer({ description: 'Different, and left by onConflict=skip' }),
  failed: Type.Integer(),
  errors: Type.Array(Type.String()),
});

const Outcome = Type.Object({
  configResults: Type.Record(
    Type.String(),
    Type.Object({ success: Type.Boolean(), error: Type.Optional(Type.String()) }),
  ),
  moduleResults: Type.Record(Type.String(), Type.Record(Type.String(), TypeOutcome)),
  checksum: planFields.checksum,
  warnings: planFields.warnings,
});

const importState = (state: State): Operation =>
  defineOperation({
    ...facts,
    id: 'core.state.import',
    about: { configs: 'inside', modules: 'inside' },
    method: 'POST',
    path: '/state/import',
    destructive: true,
    // A misspelt `dryRun` must not be an import.
    strict: true,
    // Its steps commit one by one, and an answer to replay would say nothing about what is there now.
    idempotency: false,
    bodyLimit,
    deadlineMs: 600_000,
    input: {
      query: Type.Object({
        ...planQuery,
        dryRun: flag('Only answer the plan'),
        confirm: Type.Optional(
          Type.String({
            maxLength: 128,
            description: 'Checksum of the plan that you agree to; needed to take things away',
          }),
        ),
        continueOnError: flag('Go on after a step that failed'),
        compat: flag('Answer 200 also when a step failed'),
      }),
      body: StateDocument,
    },
    output: Type.Union([Outcome, Plan]),
    errors: [errors.CONFLICT, errors.PRECONDITION_FAILED],
    otherStatuses: { 207: 'Some step failed; what had been done before it stays.' },
    summary: 'Make the state of the platform that of a document',
    description:
      'Everything is checked before the first write: a document that is not valid changes nothing. Importing it again changes nothing more. Secrets are found under `secrets`, in the environment of the platform (`SECRET_<MODULE>_<PATH>`), or stay.',
    auditAtEnd: true,
    auditChanges: sentParts,
    async handler(context, { query, body }) {
      const request = requestOf(query);
      if (query.dryRun) return planView(await state.plan(context.caller, body, request));
      const { confirm, continueOnError = false, compat = false } = query;
      const { plan, complete, ...results } = await state.import(context.caller, body, {
        ...request,
        confirm,
        continueOnError,
      });
      auditPlan(context, plan);
      const answer: Omit<ImportResult, 'complete'> & Pick<StatePlan, 'checksum' | 'warnings'> = {
        ...results,
        checksum: plan.checksum,
        warnings: plan.warnings,
      };
      return Reply.json(JSON.stringify(answer), {}, complete || compat ? 200 : 207);
    },
  });

/** Looking after what is stored: verification, orphans and the changelog. */
import Type from 'typebox';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Database } from '../../../kernel/database/database.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { authorizationErrors } from '../errors.ts';
import type { ChangeStreams } from '../services/change-stream.ts';
import type { Changes } from '../services/changelog.ts';
import { findOrphans, type Verification, type Verifications } from '../services/verification.ts';
import { changeStreamOperation } from './change-stream.ts';
import { Id, Instant } from './shapes.ts';

export interface MaintenanceServices {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly verifications: Verifications;
  readonly changes: Changes;
  readonly streams: ChangeStreams;
}

export const maintenanceOperations = (services: MaintenanceServices): readonly Operation[] => [
  reconstruct(services),
  status(services),
  orphans(services),
  changes(services),
  changeStreamOperation(services.streams),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

const reconstruct = ({ verifications }: MaintenanceServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.indexer.reconstruct',
    method: 'POST',
    path: '/authorization/indexer/reconstruct',
    input: {
      body: Type.Optional(
        Type.Object({
          soft: Type.Optional(
            Type.Boolean({ description: 'Without looking for missing records and users' }),
          ),
        }),
      ),
    },
    output: TextResult,
    summary: 'Verify all stored relations',
    description:
      'Answers come from the relations themselves, so there is no index to rebuild and no answer is ever wrong meanwhile. The run goes on in the background; see the status.',
    async handler(_context, { body }) {
      await verifications.start(body?.soft ?? false);
      return 'ok';
    },
  });

const Run = Type.Object({
  _id: Id,
  soft: Type.Boolean(),
  state: Type.Enum(['waiting', 'running', 'done']),
  total: Type.Integer({ description: 'Relations when it was asked for' }),
  checked: Type.Integer(),
  invalid: Type.Integer({
    description: 'Relations that no definition allows any more; they count for nothing',
  }),
  orphaned: Type.Integer({
    description: 'Relations whose subject or resource does not exist; 0 when soft',
  }),
  examples: Type.Array(Type.Object({ id: Id, tuple: Type.String(), problem: Type.String() })),
  createdAt: Instant,
  updatedAt: Instant,
  finishedAt: Type.Union([Instant, Type.Null()]),
});

const runOnWire = ({ id, createdAt, updatedAt, finishedAt, examples, ...rest }: Verification) => ({
  _id: id,
  ...rest,
  examples: [...examples],
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
  finishedAt: finishedAt?.toISOString() ?? null,
});

const status = ({ verifications }: MaintenanceServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.indexer.status',
    method: 'GET',
    path: '/authorization/indexer/status',
    input: {},
    output: Type.Object({ runs: Type.Array(Run) }),
    summary: 'Show how verifications go on',
    description: 'The last 20, newest first.',
    handler: async () => ({ runs: (await verifications.list(20)).map(runOnWire) }),
  });

const first = '00000000-0000-0000-0000-000000000000';

const orphans = ({ database, schemas }: MaintenanceServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.orphans',
    method: 'GET',
    path: '/authorization/orphans',
    input: {
      query: Type.Object({
        after: Type.Optional(
          Type.String({ format: 'uuid', description: 'The cursor of the answer before' }),
        ),
        window: Type.Integer({
          default: 5000,
          minimum: 1,
          maximum: 10_000,
          description: 'How many relations to look at',
        }),
      }),
    },
    output: Type.Object({
      orphans: Type.Array(
        Type.Object({ id: Id, tuple: Type.String(), missing: Type.Enum(['subject', 'resource']) }),
      ),
      cursor: Type.Optional(
        Type.String({
          description: 'Goes on from here; absent at the end, also after a page without orphans',
        }),
      ),
    }),
    summary: 'List relations about records and users that do not exist',
    description:
      'Only of types that are schemas. Deleting a record or a user takes its relations away, so these were written by hand.',
    async handler(_context, { query: { after = first, window } }) {
      const { orphans: found, last } = await findOrphans(database, schemas, { after, window });
      return { orphans: [...found], ...(last === undefined ? {} : { cursor: last }) };
    },
  });

const ChangeView = Type.Object({
  sequence: Type.Integer(),
  topic: Type.String({
    description: 'authorization:<create|update|delete>:<relation|permission|resource|role|rule>',
  }),
  ids: Type.Array(Type.String()),
  payload: Type.Record(Type.String(), Type.Unknown()),
  actor: Type.String(),
  occurredAt: Instant,
});

const changes = ({ changes: log }: MaintenanceServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.changes',
    method: 'GET',
    path: '/authorization/changes',
    input: {
      query: Type.Object({
        after: Type.Optional(
          Type.Integer({
            minimum: 0,
            description:
              'Changes after this sequence; without it only the present position is answered',
          }),
        ),
        limit: Type.Integer({
          default: 100,
          minimum: 1,
          maximum: 1000,
          description: 'What one write did is not divided: a page may hold more',
        }),
      }),
    },
    output: Type.Object({
      changes: Type.Array(ChangeView),
      next: Type.Integer({ description: 'Ask after this one next' }),
      more: Type.Boolean({ description: 'There may be more right now' }),
    }),
    errors: [authorizationErrors.CHANGES_GONE],
    summary: 'Watch what changes about permissions',
    description:
      'In the order of the commits, without gaps. A sequence that is no longer kept is 409.',
    async handler(_context, { query: { after, limit } }) {
      if (after === undefined) return { changes: [], next: await log.position(), more: false };
      const { changes: found, next, more } = await log.after(after, limit);
      return {
        changes: found.map(({ sequence, topic, ids = [], payload = {}, actor, occurredAt }) => ({
          sequence,
          topic,
          ids: [...ids],
          payload: { ...payload },
          actor,
          occurredAt,
        })),
        next,
        more,
      };
    },
  });

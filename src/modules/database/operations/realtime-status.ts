/** How it stands with the feed of record changes. */
import Type from 'typebox';
import { isOffered } from '../../../data/records/access/operation-access.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { lastPublishedAt, waitingSince } from '../../../kernel/events/publication.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';

interface Dependencies {
  readonly schemas: SchemaRegistry;
  readonly database: Queryable;
  /** The realtime surface has a port. */
  readonly listens: boolean;
}

/** Seconds that a committed change may wait to be published before something is wrong. */
const PATIENCE = 10;

export const realtimeStatusOperation = ({ schemas, database, listens }: Dependencies): Operation =>
  defineOperation({
    surface: 'admin',
    access: 'admin',
    limit: standardLimit,
    id: 'database.realtime.status',
    method: 'GET',
    path: '/database/realtime/status',
    input: {},
    output: Type.Object({
      status: Type.Enum(['disabled', 'idle', 'live', 'degraded']),
      engine: Type.String(),
      activeSchemaCount: Type.Integer({ description: 'Schemas whose changes can be heard' }),
      lastEventAt: Type.Optional(Type.String({ format: 'date-time' })),
      message: Type.Optional(Type.String()),
    }),
    summary: 'Say how it stands with the feed of record changes',
    async handler() {
      const activeSchemaCount = schemas.all().filter((schema) => isOffered(schema, 'read')).length;
      const lastEventAt = await lastPublishedAt(database);
      const late = ((await waitingSince(database)) ?? 0) > PATIENCE;
      const facts = {
        engine: 'PostgreSQL',
        activeSchemaCount,
        ...(lastEventAt && { lastEventAt }),
      };
      if (!listens)
        return {
          status: 'disabled' as const,
          ...facts,
          message: 'CLIENT_SOCKET_PORT is negative: the realtime surface is off',
        };
      if (late)
        return {
          status: 'degraded' as const,
          ...facts,
          message: `Changes wait longer than ${PATIENCE} seconds to be published`,
        };
      return { status: activeSchemaCount === 0 ? ('idle' as const) : ('live' as const), ...facts };
    },
  });

/** What happened to the own account, as its owner may know it. */
import Type from 'typebox';
import type { Audit } from '../../../kernel/audit/audit.ts';
import { defineOperation, type Operation, standardLimit } from '../../../kernel/operation.ts';
import { deviceName } from '../services/device-name.ts';
import { userOf } from './shapes.ts';

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const securityEventsOperation = (audit: Pick<Audit, 'list' | 'count'>): Operation =>
  defineOperation({
    id: 'authentication.user.securityEvents',
    surface: 'client',
    method: 'GET',
    path: '/authentication/user/events',
    access: 'user',
    limit: standardLimit,
    input: {
      query: Type.Object({
        skip: Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0 }),
        limit: Type.Integer({ minimum: 1, maximum: 100, default: 25 }),
      }),
    },
    output: Type.Object({
      events: Type.Array(
        Type.Object({
          at: Type.String({ format: 'date-time' }),
          action: Type.String({ description: 'What was done or tried, such as `login` or `resetPassword`' }),
          outcome: Type.Union([Type.Literal('success'), Type.Literal('refused'), Type.Literal('failed')]),
          ip: nullable(Type.String()),
          device: Type.String(),
        }),
      ),
      count: Type.Integer(),
    }),
    summary: 'List what happened to the own account',
    description:
      'Sign-ins and attempts, proofs and changes that needed no session, the newest first. They are kept as long as the audit log.',
    handler: async (context, { query }) => {
      const mine = { target: `User:${userOf(context).userId}`, action: prefix };
      const [records, count] = await Promise.all([audit.list(mine, query), audit.count(mine)]);
      const events = records.map(({ at, action, outcome, ip, userAgent }) => ({
        at: at.toISOString(),
        action: action.slice(prefix.length),
        outcome,
        ip,
        device: deviceName(userAgent),
      }));
      return { events, count };
    },
  });

/** Of the events that this module writes down. */
const prefix = 'authentication.';

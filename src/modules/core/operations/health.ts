/** `/live` and `/ready` on both surfaces (spec/core.md 5). */
import Type from 'typebox';
import type { AdminIdentity } from '../../../kernel/identity.ts';
import {
  defineOperation,
  noLimit,
  type Operation,
  Reply,
} from '../../../kernel/operations/operation.ts';
import type { Readiness, ReadyReport } from '../services/readiness.ts';
import { Timestamp } from './shapes.ts';

const Live = Type.Object({ status: Type.Literal('alive'), message: Type.String() });
const Check = Type.Object({
  name: Type.String(),
  status: Type.Union([Type.Literal('pass'), Type.Literal('warn'), Type.Literal('fail')]),
  message: Type.Optional(Type.String()),
  latencyMs: Type.Number({ description: 'Milliseconds' }),
});
const Ready = Type.Object({
  result: Type.String({ description: 'One line, for existing clients' }),
  status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')]),
  message: Type.String(),
  checks: Type.Array(Check),
  timestamp: Timestamp,
});
const legacyQuery = Type.Object({
  legacy: Type.Optional(Type.Boolean({ description: 'true: one line of text instead of JSON' })),
});
const acceptHeader = Type.Object({ accept: Type.Optional(Type.String()) });
const acceptAndCredentials = Type.Object({
  accept: Type.Optional(Type.String()),
  masterkey: Type.Optional(
    Type.String({ description: 'With READY_PUBLIC_DETAILS=false: shows the reasons' }),
  ),
  credential: Type.Optional(
    Type.String({ description: 'With READY_PUBLIC_DETAILS=false: shows the reasons' }),
  ),
});

const facts = { method: 'GET', access: 'public', limit: noLimit } as const;
const notReady = { 503: 'Not ready: some check failed' } as const;
const online = 'Penstock Core is online!';
const clientOnline = 'Penstock is online!';
const legacyText = 'One line, for `legacy=true`.';
/** The same for everybody, so it is text already. */
const alive = Reply.json(JSON.stringify({ status: 'alive', message: 'Penstock is alive' }));

export interface HealthOptions {
  readonly readiness: Readiness;
  readonly identity: AdminIdentity;
  /** False hides the reasons from callers without a credential. */
  readonly publicDetails: boolean;
}

export const healthOperations = (options: HealthOptions): readonly Operation[] => [
  adminLive,
  adminReady(options),
  clientLive,
  clientReady(options.readiness),
];

const adminLive = defineOperation({
  ...facts,
  id: 'core.health.live',
  surface: 'admin',
  path: '/live',
  input: { query: legacyQuery, headers: acceptHeader },
  output: Live,
  summary: 'Is the process alive',
  description: 'Asks nothing of anything else.',
  textAnswer: 'One line, for `legacy=true` and for callers that accept plain text and no JSON.',
  handler: (_context, { query, headers }) =>
    wantsText(query.legacy, headers.accept, ['text/plain']) ? textLine(online, 200) : alive,
});

const adminReady = ({ readiness, identity, publicDetails }: HealthOptions): Operation =>
  defineOperation({
    ...facts,
    id: 'core.health.ready',
    surface: 'admin',
    path: '/ready',
    input: { query: legacyQuery, headers: acceptAndCredentials },
    output: Ready,
    otherStatuses: notReady,
    summary: 'Can the platform serve',
    description:
      'One result for each check; 503 with the same body when one fails. Answered from memory for a second.',
    textAnswer:
      'One line, for `legacy=true` and for callers that accept plain text or anything, but do not name JSON.',
    async handler({ address }, { query, headers }) {
      const report = await readiness.full();
      const status = statusOf(report);
      if (wantsText(query.legacy, headers.accept, ['text/plain', '*/*']))
        return textLine(resultOf(status), status);
      const { masterkey: masterKey, credential: apiToken } = headers;
      const trusted = publicDetails || (await isAdmin(identity, { masterKey, apiToken, address }));
      const told = trusted ? report : withoutReasons(report);
      return Reply.json(JSON.stringify({ result: resultOf(status), ...told }), {}, status);
    },
  });

const clientLive = defineOperation({
  ...facts,
  id: 'core.health.clientLive',
  surface: 'client',
  anyApp: true,
  path: '/live',
  input: { query: legacyQuery },
  output: Live,
  summary: 'Is the process alive',
  textAnswer: legacyText,
  graphql: false,
  handler: (_context, { query }) => (query.legacy ? textLine(clientOnline, 200) : alive),
});

const clientReady = (readiness: Readiness): Operation =>
  defineOperation({
    ...facts,
    id: 'core.health.clientReady',
    surface: 'client',
    anyApp: true,
    path: '/ready',
    input: { query: legacyQuery },
    output: Ready,
    otherStatuses: notReady,
    summary: 'Are the required modules there',
    description: 'A shallow check for load balancers; the whole report is on the admin surface.',
    textAnswer: legacyText,
    graphql: false,
    handler(_context, { query }) {
      const report = withoutReasons(readiness.shallow());
      const status = statusOf(report);
      const result = status === 200 ? clientOnline : 'Penstock is not ready';
      if (query.legacy) return textLine(result, status);
      return Reply.json(JSON.stringify({ result, ...report }), {}, status);
    },
  });

/** The line of the admin surface that existing command lines read. */
const resultOf = (status: number): string =>
  status === 200 ? online : 'Penstock Core is not ready';

const statusOf = (report: ReadyReport): 200 | 503 => (report.status === 'ready' ? 200 : 503);

const textLine = (text: string, status: number): Reply =>
  Reply.text(text, 'text/plain; charset=utf-8', status);

/** JSON for those who name it or send no Accept; text for `legacy`, and for those who accept one of `textTypes`. */
function wantsText(
  legacy: boolean | undefined,
  accept: string | undefined,
  textTypes: readonly string[],
): boolean {
  if (legacy) return true;
  if (accept === undefined || accept.includes('application/json')) return false;
  return textTypes.some((type) => accept.includes(type));
}

const withoutReasons = (report: ReadyReport): ReadyReport => ({
  ...report,
  checks: report.checks.map(({ name, status, latencyMs }) => ({ name, status, latencyMs })),
});

interface HeaderCredentials {
  readonly masterKey: string | undefined;
  readonly apiToken: string | undefined;
  readonly address: string;
}

async function isAdmin(identity: AdminIdentity, credentials: HeaderCredentials): Promise<boolean> {
  if (!credentials.masterKey && !credentials.apiToken) return false;
  try {
    await identity.authenticate({ ...credentials, bearer: undefined, cookies: {} });
    return true;
  } catch {
    return false;
  }
}

/**
 * `POST /realtime/ticket`: something short that stands for the caller's credential once, for half a minute, where no
 * header can be sent: in the address of an `EventSource` or of a WebSocket (specification router.md 5.1). What is opened
 * with it is checked like anything that is opened with the credential itself: it ends with the session.
 */
import Type from 'typebox';
import type { Kernel } from '../../host/kernel.ts';
import { errors } from '../../kernel/errors.ts';
import type { Identity, PresentedApp, PresentedCredentials } from '../../kernel/identity.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../kernel/operations/operation.ts';
import type { OperationContext } from '../../kernel/operations/operation-input.ts';
import type { Tickets } from '../../kernel/security/tickets.ts';

const SECONDS = 30;
const PATH = '/realtime/ticket';

/** Everything below `/realtime/` is Socket.IO's, but for this. */
export const isSocketPath = (url: string): boolean =>
  url.startsWith('/realtime/') && !isTicketPath(url);

const isTicketPath = (url: string): boolean =>
  url.startsWith(PATH) && (url.length === PATH.length || url[PATH.length] === '?');

/** What a ticket of the client surface stands for. */
interface ClientTicket {
  readonly token: string;
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
}

type OperatorTicket = Pick<PresentedCredentials, 'bearer' | 'masterKey' | 'apiToken'>;

const Ticket = Type.Object({
  ticket: Type.String({ description: 'Worth the credential once' }),
  expiresIn: Type.Integer({ description: 'Seconds' }),
});

const facts = {
  method: 'POST',
  path: PATH,
  limit: standardLimit,
  input: {},
  output: Ticket,
  mcp: false,
  graphql: false,
  idempotency: false,
  answersSecret: true,
  readOnly: true,
  audit: false,
} as const;

/** Of the client surface. */
export const clientTicketOperation = ({
  tickets,
  identity,
}: Pick<Kernel, 'tickets' | 'identity'>): Operation =>
  defineOperation({
    ...facts,
    surface: 'client',
    access: 'user',
    id: 'realtime.ticket',
    summary: 'Get a ticket for a connection that cannot send headers',
    description:
      'For `GET /listen/ticket` (an `EventSource`), `auth.ticket` of a socket, the `ticket` of `connection_init` over GraphQL, or `?ticket=` in the address of a WebSocket. It is worth your token once, within 30 seconds, on any node; what it opens ends with your session.',
    async handler(context) {
      const token = presentedToken(context, identity);
      if (token === undefined) throw errors.UNAUTHORIZED();
      const content: ClientTicket = {
        token,
        clientId: headerOf(context, 'clientid'),
        clientSecret: headerOf(context, 'clientsecret'),
      };
      return answer(await tickets.issue('client', JSON.stringify(content), SECONDS));
    },
  });

/** Of the admin surface; `enabled`: whether it has sockets now. */
export const operatorTicketOperation = (
  { tickets }: Pick<Kernel, 'tickets'>,
  enabled: () => boolean,
): Operation =>
  defineOperation({
    ...facts,
    surface: 'admin',
    access: 'admin',
    id: 'docs.realtimeTicket',
    errors: [errors.NOT_FOUND],
    summary: 'Get a ticket for a socket that cannot send headers',
    description:
      'For `auth.ticket` of a socket of this surface, or `?ticket=` in its address. It is worth your credential once, within 30 seconds, on any node.',
    async handler(context) {
      if (!enabled()) throw errors.NOT_FOUND({ message: 'Sockets of operators are switched off' });
      const content: OperatorTicket = {
        bearer: bearerOf(context),
        masterKey: headerOf(context, 'masterkey'),
        apiToken: headerOf(context, 'credential'),
      };
      return answer(await tickets.issue('operator', JSON.stringify(content), SECONDS));
    },
  });

const answer = (ticket: string) => ({ ticket, expiresIn: SECONDS });

/** A header that was admitted as part of the credential, so it is there once and well formed. */
const headerOf = ({ headers = {} }: OperationContext, name: string): string | undefined => {
  const value = headers[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
};

const bearerOf = (context: OperationContext): string | undefined =>
  headerOf(context, 'authorization')?.slice('Bearer '.length);

/** The access token of a request to the client surface, in its header or in a cookie. */
export const presentedToken = (
  context: OperationContext,
  { client }: Identity,
): string | undefined => bearerOf(context) ?? client?.cookieTokens?.accessToken(context.cookies);

/** What a client presents, as far as a ticket stands for it. */
interface Redeemable {
  readonly token: string | undefined;
  readonly app: PresentedApp;
}

const used = () =>
  errors.UNAUTHORIZED({ message: 'This ticket is unknown, was used before or has ended' });

/** With what the ticket stands for in its place; as it is without one. Throws 401. */
export async function redeemed<P extends Redeemable>(
  tickets: Tickets,
  presented: P,
  ticket: string | undefined,
): Promise<P> {
  if (ticket === undefined) return presented;
  const content = await tickets.take('client', ticket);
  if (content === undefined) throw used();
  const { token, clientId, clientSecret } = JSON.parse(content) as ClientTicket;
  const { app } = presented;
  return {
    ...presented,
    token,
    app: {
      ...app,
      clientId: app.clientId ?? clientId,
      clientSecret: app.clientSecret ?? clientSecret,
    },
  };
}

/** The same, for operators. */
export async function redeemedOperator(
  tickets: Tickets,
  presented: PresentedCredentials,
  ticket: string | undefined,
): Promise<PresentedCredentials> {
  if (ticket === undefined) return presented;
  const content = await tickets.take('operator', ticket);
  if (content === undefined) throw used();
  return { ...presented, ...(JSON.parse(content) as OperatorTicket) };
}

/** What tokens in cookies change about operations. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { TokenPair } from '../services/sessions/session-opening.ts';
import type { EndPreviousSession, TokenCookies } from '../services/sessions/token-cookies.ts';
import { userOf } from './shapes.ts';

/** What the operations with cookies call. */
export interface CookieServices {
  readonly tokenCookies: TokenCookies;
  readonly endPreviousSession: EndPreviousSession;
}

/** The same operations; those that answer tokens answer them in cookies. Whichever they are: their output says it. */
export const answeringInCookies = (
  operations: readonly Operation[],
  services: CookieServices,
): readonly Operation[] =>
  services.tokenCookies.enabled()
    ? operations.map((operation) =>
        answersTokens(operation) ? inCookies(operation, services) : operation,
      )
    : operations;

/** Throws for a shape in which tokens could stay in the body unnoticed. */
function answersTokens({ id, surface, output }: Operation): boolean {
  if (surface !== 'client' || !JSON.stringify(output).includes('"accessToken"')) return false;
  if (!Type.IsObject(output) || output.properties.accessToken === undefined)
    throw new Error(`${id}: answer tokens at the top of an object`);
  return true;
}

function inCookies(
  operation: Operation,
  { tokenCookies, endPreviousSession }: CookieServices,
): Operation {
  const output = operation.output as Type.TObject;
  // Others go on with the session of the request.
  const opensSession = output.properties.userId !== undefined;
  return {
    ...operation,
    idempotency: false,
    output: withCookies(output),
    async handler(context, input) {
      const answer = delivered(await operation.handler(context, input), tokenCookies);
      if (opensSession && answer instanceof Reply && tokenCookies.areGiven(answer.cookies))
        await endPreviousSession(context.cookies, userIdIn(answer.value));
      return answer;
    },
  };
}

const userIdIn = (answer: unknown): string | undefined =>
  (answer as { readonly userId?: string } | undefined)?.userId;

/** Answers that are more than their tokens have put them into cookies themselves. */
function delivered(answer: unknown, tokenCookies: TokenCookies): unknown {
  if (answer instanceof Reply || !(answer instanceof Object && 'accessToken' in answer))
    return answer;
  const { rest, cookies } = tokenCookies.take(answer as TokenPair);
  return Reply.value(rest).withCookies(cookies);
}

const CsrfToken = Type.String({
  description: 'Goes into the header X-CSRF-Token of requests from pages of other hosts',
});

const withCookies = ({ properties }: Type.TObject): Type.TObject =>
  Type.Object({
    ...properties,
    accessToken: Type.Optional(Type.String({ description: 'Absent where it is in a cookie' })),
    ...(properties.refreshToken
      ? {
          refreshToken: Type.Optional(
            Type.String({ description: 'Absent where it is in a cookie' }),
          ),
        }
      : {}),
    csrfToken: Type.Optional(CsrfToken),
  });

/** Exists only while a token goes into a cookie. */
export const csrfOperation = (cookies: TokenCookies): Operation =>
  defineOperation({
    id: 'authentication.session.csrfToken',
    surface: 'client',
    method: 'GET',
    path: '/authentication/csrf',
    access: 'partialUser',
    limit: standardLimit,
    mcp: false,
    graphql: false,
    input: {},
    output: Type.Object({ csrfToken: CsrfToken }),
    summary: 'Read the token that pages of other hosts send along',
    description:
      'For pages whose cookies come from this host but which come from another one. It lasts as long as the session.',
    handler: (context) => ({ csrfToken: cookies.csrfToken(userOf(context).sessionId) }),
  });

/** What ends the session also takes its cookies away. */
export const signedOut = (text: string, cookies: TokenCookies): string | Reply => {
  const cleared = cookies.cleared();
  return cleared.length === 0 ? text : Reply.value(text).withCookies(cleared);
};

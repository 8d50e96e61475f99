/** What went wrong between the platform and a provider, as an answer. Nothing here is a 500. */
import { ResponseBodyError } from 'openid-client';
import { PenstockError } from '../../../../kernel/errors.ts';
import { OutboundError } from '../../../../kernel/outbound/fetch.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { externalErrors } from '../../external-errors.ts';
import type { Origin } from '../origin.ts';
import type { SignIn } from '../sign-in.ts';
import { IdTokenError } from './id-tokens.ts';
import { ProviderAnswerError } from './json-answer.ts';
import type { Provider } from './provider.ts';

/** Seconds after which a provider that failed may be tried again. */
const retryAfter = 10;

/** Answers of a token address that are about our client, not about the code: the operator must look. */
const aboutClient: ReadonlySet<string> = new Set(['invalid_client', 'unauthorized_client', 'invalid_scope', 'invalid_response']);

/** The answer for any failure of a provider. `detail` is for operators and holds no secret. */
export function providerFailure(error: unknown): PenstockError {
  if (error instanceof PenstockError) return error;
  const cause = rootOf(error);
  if (cause instanceof IdTokenError)
    return externalErrors.EXTERNAL_TOKEN_INVALID({ cause, detail: `The ID token was refused: ${cause.message}` });
  if (cause instanceof ResponseBodyError && !aboutClient.has(cause.error) && cause.status < 500) {
    return externalErrors.EXTERNAL_CODE_REFUSED({ cause, detail: `The provider answered ${cause.error}` });
  }
  return externalErrors.EXTERNAL_PROVIDER_UNAVAILABLE({ cause, retryAfter, detail: detailOf(cause) });
}

/** Runs what asks a provider. Whatever goes wrong becomes an answer, and is noted in the log where an operator can do something about it. */
export type AskProvider = <T>(provider: Provider, work: () => Promise<T>) => Promise<T>;

export const createAskProvider =
  (log: Logger): AskProvider =>
  async ({ settings }, work) => {
    try {
      return await work();
    } catch (error) {
      const failure = providerFailure(error);
      const { code, detail } = failure;
      if (detail !== undefined) log.warn({ provider: settings.name, code, detail }, 'A sign-in at a provider failed');
      throw failure;
    }
  };

/** Runs the part of a sign-in that must prove who somebody is. Refusals are noted like wrong passwords. */
export type Proving = <T>(provider: Provider, origin: Origin, work: () => Promise<T>) => Promise<T>;

export const createProving =
  (signIn: Pick<SignIn, 'refused'>): Proving =>
  async ({ settings }, origin, work) => {
    try {
      return await work();
    } catch (error) {
      const refused = error instanceof PenstockError && !nobodysFault.has(error.code);
      if (refused) await signIn.refused({ strategy: settings.name, outcome: 'wrong', origin });
      throw error;
    }
  };

/** Somebody changed his mind, or the provider is down. */
const nobodysFault: ReadonlySet<string> = new Set([
  externalErrors.EXTERNAL_SIGN_IN_DENIED.code,
  externalErrors.EXTERNAL_PROVIDER_UNAVAILABLE.code,
]);

/** The client library wraps what a fetch throws. */
function rootOf(error: unknown): unknown {
  if (error instanceof ResponseBodyError || !(error instanceof Error) || !(error.cause instanceof Error)) return error;
  return error instanceof OutboundError ? error : rootOf(error.cause);
}

function detailOf(cause: unknown): string {
  if (cause instanceof ResponseBodyError) return `The token address answered ${cause.error} (status ${cause.status})`;
  if (cause instanceof OutboundError || cause instanceof ProviderAnswerError) return cause.message;
  return cause instanceof Error ? `The answer could not be used: ${cause.message}` : 'The answer could not be used';
}

/** Shapes and small parts that the operations of external sign-in share. */
import Type from 'typebox';
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { externalErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import { forbidImpersonation } from '../services/caller-checks.ts';
import type { Provider } from '../services/external/provider.ts';
import type { External } from '../services/sign-in-methods.ts';
import { userOf } from './shapes.ts';

export const ProviderName = Type.Object({
  provider: Type.String({
    minLength: 1,
    maxLength: 64,
    description: 'Name of the provider, such as `google`',
  }),
});

export const Scopes = Type.Array(
  Type.String({ pattern: '^[\\x21\\x23-\\x5b\\x5d-\\x7e]{1,200}$' }),
  {
    maxItems: 50,
    description: 'What to ask the provider for, in place of what the configuration says',
  },
);
export const InvitationToken = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'For somebody who has no account yet',
});
export const CodeChallenge = Type.String({
  pattern: '^[A-Za-z0-9_-]{43}$',
  description:
    'S256 challenge (RFC 7636): at the end the app gets a code for POST /authentication/exchange, which needs the verifier',
});

/** Throws 404 for a provider that is unknown or switched off. */
export function providerOf({ providers }: Pick<External, 'providers'>, name: string): Provider {
  const provider = providers().get(name);
  if (!provider)
    throw errors.NOT_FOUND({ message: 'There is no such provider, or it is switched off' });
  return provider;
}

/** A user who is signed in already, where that is optional. Throws 403 for an operator who acts as one. */
export function maybeUser(context: OperationContext): UserCaller | undefined {
  if (context.caller.kind !== 'user') return undefined;
  const user = userOf(context);
  forbidImpersonation(user);
  return user;
}

/** What an account may refuse when somebody signs in to it, or when it is made. */
export const refusals = [
  authErrors.USER_BLOCKED,
  authErrors.EMAIL_NOT_VERIFIED,
  authErrors.SUDO_REQUIRED,
  authErrors.EMAIL_NOT_ALLOWED,
  authErrors.USER_EXISTS,
  authErrors.INVITATION_REQUIRED,
  authErrors.INVALID_INVITATION,
  externalErrors.EXTERNAL_LINKING_DISABLED,
  externalErrors.EXTERNAL_EMAIL_UNVERIFIED,
  externalErrors.EXTERNAL_TOKEN_INVALID,
  externalErrors.EXTERNAL_PROVIDER_UNAVAILABLE,
] as const;

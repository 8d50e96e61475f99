/** Signing in with what an app got from a provider's own SDK. */
import Type from 'typebox';
import { errors } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { externalErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import type { Asking } from '../services/external/app-sign-in.ts';
import type { External } from '../services/sign-in-methods.ts';
import {
  InvitationToken,
  maybeUser,
  ProviderName,
  providerOf,
  refusals,
  Scopes,
} from './external-shapes.ts';
import { Login, originOf } from './shapes.ts';

const limit = { requests: 35, seconds: 900 } as const;
const client = { surface: 'client', limit, idempotency: false } as const;

export function appOperations(external: External): readonly Operation[] {
  const { get } = external.providers();
  return [
    ...(get('apple') ? [initNativeOperation(external), nativeOperation(external)] : []),
    ...(get('google') ? [googleOperation(external)] : []),
    ...(get('facebook') ? [facebookOperation(external)] : []),
  ];
}

const askingOf = (context: OperationContext): Asking => ({
  caller: context.caller,
  origin: originOf(context),
});

const initNativeOperation = (external: External): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.external.initNative',
    method: 'GET',
    path: '/authentication/initNative/:provider',
    access: 'optionalUser',
    input: {
      params: ProviderName,
      query: Type.Object({
        scopes: Type.Optional(Scopes),
        invitationToken: Type.Optional(InvitationToken),
      }),
    },
    output: Type.Object({
      client_id: Type.String(),
      redirect_uri: Type.String(),
      scope: Type.String(),
      state: Type.String({ description: 'Works once, for ten minutes' }),
      nonce: Type.String({
        description: 'For the request to the provider, as it is or as its SHA-256 in hex',
      }),
    }),
    errors: [errors.NOT_FOUND, authErrors.SUDO_REQUIRED],
    summary: 'Start to sign in with Apple inside an app',
    handler: (context, { params, query }) =>
      external.apps.startNative(
        providerOf(external, nativeName(params.provider)),
        query,
        maybeUser(context),
      ),
  });

const nativeOperation = (external: External): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.external.native',
    method: 'POST',
    path: '/authentication/native/:provider',
    access: 'public',
    input: {
      params: ProviderName,
      body: Type.Object({
        code: Type.String({ minLength: 1, maxLength: 4096 }),
        id_token: Type.String({ minLength: 1, maxLength: 16_384 }),
        state: Type.String({ minLength: 1, maxLength: 200 }),
        user: Type.Optional(
          Type.String({
            maxLength: 4096,
            description: 'JSON with the name, with the first sign-in only',
          }),
        ),
      }),
    },
    output: Login,
    errors: [
      errors.NOT_FOUND,
      externalErrors.EXTERNAL_STATE_INVALID,
      externalErrors.EXTERNAL_CODE_REFUSED,
      ...refusals,
    ],
    summary: 'Sign in with what Apple gave an app',
    description:
      'The ID token must be made for this app (`clientId` or one of `audiences`), and the code must belong to the same person.',
    handler: (context, { params, body }) =>
      external.apps.finishNative(
        providerOf(external, nativeName(params.provider)),
        body,
        askingOf(context),
      ),
  });

/** Only Apple has a flow of this kind: 404 for others, like for one that is switched off. */
const nativeName = (name: string): string => (name === 'apple' ? name : '');

const googleOperation = (external: External): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.external.google',
    method: 'POST',
    path: '/authentication/google',
    access: 'optionalUser',
    input: {
      body: Type.Object({
        id_token: Type.String({
          minLength: 1,
          maxLength: 16_384,
          description: 'Made for `google.clientId` or one of `google.audiences`',
        }),
        access_token: Type.Optional(
          Type.String({
            maxLength: 4096,
            description: 'For the profile, where the ID token does not carry it',
          }),
        ),
        nonce: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 200,
            description: 'What the app told Google: the ID token must repeat it',
          }),
        ),
        invitationToken: Type.Optional(InvitationToken),
      }),
    },
    output: Login,
    errors: [...refusals],
    summary: 'Sign in with an ID token of Google',
    description:
      'Signature, issuer, audience and time are checked. An access token proves nothing here: it does not say for which app it was made.',
    handler: (context, { body }) => {
      const { id_token: idToken, access_token: accessToken, nonce, invitationToken } = body;
      return external.apps.byIdToken(
        providerOf(external, 'google'),
        { idToken, accessToken, nonce, invitationToken },
        askingOf(context),
      );
    },
  });

const facebookOperation = (external: External): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.external.facebook',
    method: 'POST',
    path: '/authentication/facebook',
    access: 'optionalUser',
    input: {
      body: Type.Object({
        access_token: Type.String({ minLength: 1, maxLength: 4096 }),
        invitationToken: Type.Optional(InvitationToken),
      }),
    },
    output: Login,
    errors: [...refusals],
    summary: 'Sign in with an access token of Facebook',
    description: 'Facebook is asked for which app the token was made, and whether it still holds.',
    handler: (context, { body }) => {
      const { access_token: accessToken, invitationToken } = body;
      return external.apps.byFacebookToken(
        providerOf(external, 'facebook'),
        { accessToken, invitationToken },
        askingOf(context),
      );
    },
  });

/** Proving once more who one is. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operation.ts';
import { authErrors } from '../errors.ts';
import { factorErrors } from '../factor-errors.ts';
import type { StepUp } from '../services/step-up.ts';
import { AssertionCredential } from './passkey-shapes.ts';
import { assertion } from './passkeys.ts';
import { originOf, userOf } from './shapes.ts';

/** Exists always: what one can prove depends on the account. */
export const stepUpOperation = ({ stepUp }: { readonly stepUp: StepUp }): Operation =>
  defineOperation({
    id: 'authentication.session.stepUp',
    surface: 'client',
    method: 'POST',
    path: '/authentication/sudo',
    access: 'user',
    limit: { requests: 30, seconds: 900 },
    idempotency: false,
    mcp: false,
    input: {
      body: Type.Object({
        password: Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description: 'For accounts without a second factor' })),
        code: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 20,
            description: 'Of the second factor. Codes by text message: POST /authentication/twoFa/authorize first',
          }),
        ),
        credential: Type.Optional(AssertionCredential),
      }),
    },
    output: Type.Object({ accessToken: Type.String({ description: 'Of the same session, fresh from now on' }) }),
    errors: [
      authErrors.WRONG_PASSWORD,
      authErrors.SUDO_REQUIRED,
      authErrors.TOO_MANY_FAILURES,
      factorErrors.NO_SECOND_FACTOR,
      factorErrors.WRONG_CODE,
      factorErrors.WRONG_TOTP,
      factorErrors.PASSKEY_INVALID,
    ],
    summary: 'Prove once more who you are',
    description:
      'For what needs a fresh login (setting sessions.sudoMaxAge). A passkey signs a challenge of POST /authentication/twoFa/passkey/options. The refresh token stays good.',
    handler: (context, { body }) => {
      const { password, code } = body;
      const credential = body.credential && assertion(body.credential);
      return stepUp.prove(userOf(context), { password, code, credential }, originOf(context));
    },
  });

/** Registration and sign-in with an Ethereum wallet. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { externalErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import type { External } from '../services/sign-in-methods.ts';
import { InvitationToken } from './external-shapes.ts';
import { Login, originOf } from './shapes.ts';

type Services = Pick<External, 'wallet'>;

const facts = {
  surface: 'client',
  limit: { requests: 30, seconds: 900, account: 'ethPublicAddress' },
  idempotency: false,
  mcp: false,
  graphql: false,
} as const;

const Address = Type.String({
  pattern: '^0x[0-9a-fA-F]{40}$',
  description: 'In lower case, or with its checksum (EIP-55), which is then checked',
});

/** Exist only while wallets are switched on. */
export const walletOperations = (services: Services): readonly Operation[] => [
  nonceOperation(services),
  signInOperation(services),
];

const nonceOperation = ({ wallet }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.metamask.nonce',
    method: 'POST',
    path: '/authentication/metamask/nonce',
    access: 'public',
    input: { body: Type.Object({ ethPublicAddress: Address }) },
    output: Type.Object({
      nonce: Type.String({
        description: 'Names the text in POST /authentication/metamask/authenticate',
      }),
      message: Type.String({
        description:
          'The text to sign (EIP-4361), as it is; works once, for `metamask.nonceLifetime`',
      }),
    }),
    errors: [externalErrors.WALLET_ADDRESS_INVALID],
    summary: 'Ask for a text to sign with a wallet',
    description: 'The same for every address, whether there is an account or not; makes none.',
    handler: (_context, { body }) => wallet.challenge(body.ethPublicAddress),
  });

const signInOperation = ({ wallet }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.metamask.authenticate',
    method: 'POST',
    path: '/authentication/metamask/authenticate',
    access: 'optionalUser',
    input: {
      body: Type.Object({
        ethPublicAddress: Address,
        signature: Type.String({
          pattern: '^0x[0-9a-fA-F]{128}(00|01|1[bBcC])$',
          description:
            '`personal_sign` over the message: r, s and v (0, 1, 27 or 28) in hexadecimal',
        }),
        nonce: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 200,
            description: 'Which text was signed. Unless set, the one that was asked for last',
          }),
        ),
        invitationToken: Type.Optional(InvitationToken),
      }),
    },
    output: Login,
    errors: [
      externalErrors.WALLET_ADDRESS_INVALID,
      externalErrors.WALLET_REFUSED,
      externalErrors.IDENTITY_EXISTS,
      authErrors.SUDO_REQUIRED,
      authErrors.USER_BLOCKED,
      authErrors.EMAIL_NOT_VERIFIED,
      authErrors.INVITATION_REQUIRED,
      authErrors.INVALID_INVITATION,
    ],
    summary: 'Register or sign in with a wallet',
    description:
      'Signs in whoever has the address, else makes an account; with the token of an anonymous user, that user becomes the account. With the token of a registered user the address becomes one more way into their account: that needs a fresh login. Counts for one factor.',
    handler: (context, { body }) => wallet.authenticate(context.caller, body, originOf(context)),
  });

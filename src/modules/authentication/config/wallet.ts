/** Configuration of sign-in with an Ethereum wallet. */
import Type from 'typebox';

const minute = 60_000;

export const walletConfig = Type.Object({
  enabled: Type.Boolean({
    default: false,
    description: 'Whether users register and sign in by a signature of their Ethereum wallet (EIP-4361).',
  }),
  origin: Type.String({
    default: '',
    maxLength: 300,
    description:
      'Where your app runs, like `https://app.example.com`: wallets warn when the text that they sign names another place. Empty: the origin of `hostUrl` in the router.',
  }),
  chainId: Type.Integer({
    default: 1,
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'The chain that the text names (EIP-155). 1: the main network.',
  }),
  nonceLifetime: Type.Integer({
    default: 5 * minute,
    minimum: minute,
    maximum: 15 * minute,
    description: 'How long a text to sign works. Milliseconds.',
  }),
});

/** What cannot work, with dotted paths. */
export function walletProblems({ metamask }: { readonly metamask: { readonly origin: string } }) {
  const { origin } = metamask;
  if (origin === '') return [];
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  const isOrigin = url?.origin === origin && /^https?:$/.test(url.protocol);
  return isOrigin
    ? []
    : [{ path: 'metamask.origin', rule: 'origin', message: 'write an origin alone, in lower case, like https://app.example.com' }];
}

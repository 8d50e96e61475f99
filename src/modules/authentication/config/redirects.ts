/** Where browsers may be sent at the end of a flow. */
import Type from 'typebox';
import { parseTarget } from '../services/redirects.ts';

/** An address of the app; empty where there is none. */
export const address = (description: string) => Type.String({ default: '', maxLength: 2048, description });

export const redirectsConfig = Type.Object({
  allowAny: Type.Boolean({
    default: false,
    description: 'Accept every web address that a request names. Only for development: links in mails could then lead anywhere.',
  }),
  whitelistedUris: Type.Array(Type.String({ maxLength: 2048 }), {
    default: [],
    maxItems: 1000,
    description:
      'Addresses that a request may name as its redirectUri. The path must be the same; one that ends in `/*` stands for everything below.',
  }),
  tokenDelivery: Type.Union([Type.Literal('query'), Type.Literal('fragment'), Type.Literal('exchange')], {
    default: 'query',
    description:
      'How an app gets its tokens at the end of a flow in the browser: in the query of the address, behind its `#`, or by a code that it exchanges once at POST /authentication/exchange (the safest).',
  }),
});

/** Configured addresses that are none, with dotted paths. */
export const addressProblems = (addresses: Readonly<Record<string, string>>) =>
  Object.entries(addresses)
    .filter(([, value]) => value !== '' && !parseTarget(value))
    .map(([path]) => ({ path, rule: 'uri', message: 'this is not an address that a browser can be sent to' }));

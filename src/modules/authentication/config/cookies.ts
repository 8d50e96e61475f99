/** Configuration of tokens in cookies. */
import Type, { type Static } from 'typebox';

const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });

/** For access tokens and refresh tokens each. */
export const cookieConfig = (token: string) => ({
  setCookie: flag(
    false,
    `Whether the ${token} goes to browsers in a cookie instead of the body. Requests of other pages that change something are then refused.`,
  ),
  cookieOptions: Type.Object({
    httpOnly: flag(true, 'Whether scripts of the page cannot read it.'),
    signed: flag(
      false,
      'Without effect, for an existing panel: tokens are proof enough of where they come from.',
    ),
    secure: flag(
      true,
      'Whether it is sent over TLS only (and to localhost). Off is for development without TLS.',
    ),
    domain: Type.String({
      default: '',
      maxLength: 253,
      description:
        'Empty: this host alone; its name then gets the prefix `__Host-`, so that no other host can set it.',
    }),
    path: Type.String({ default: '', maxLength: 1024, description: 'Empty: `/`.' }),
    sameSite: Type.Union([Type.Literal('Lax'), Type.Literal('Strict'), Type.Literal('None')], {
      default: 'Lax',
      description:
        '`None` lets pages of other sites use it, if they also send the header `X-CSRF-Token`.',
    }),
  }),
});

const shape = Type.Object(cookieConfig(''));
export type CookieConfig = Static<typeof shape>;

const domains = /^\.?[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/i;
const paths = /^\/[\x21-\x3a\x3c-\x7e]*$/;

/** What browsers would refuse, with dotted paths. */
export function cookieProblems(
  settings: Readonly<Record<'accessTokens' | 'refreshTokens', CookieConfig>>,
) {
  return (['accessTokens', 'refreshTokens'] as const).flatMap((part) => {
    const { domain, path, sameSite, secure } = settings[part].cookieOptions;
    const at = (field: string, rule: string, message: string) => ({
      path: `${part}.cookieOptions.${field}`,
      rule,
      message,
    });
    return [
      ...(domain === '' || domains.test(domain)
        ? []
        : [at('domain', 'domain', 'write a host name alone, like example.com')]),
      ...(path === '' || paths.test(path)
        ? []
        : [at('path', 'path', 'start it with / and leave out spaces and semicolons')]),
      ...(sameSite === 'None' && !secure
        ? [at('sameSite', 'secure', 'None needs secure: browsers refuse it otherwise')]
        : []),
    ];
  });
}

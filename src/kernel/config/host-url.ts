/** The public address of a surface (spec/core.md 6.3, spec/router.md 3): links, redirects and passkeys hang on it. */
import Type, { type TString } from 'typebox';

export const hostUrlConfig = (surface: string): TString =>
  Type.String({
    maxLength: 2_048,
    default: '',
    description: `Public address of the ${surface} surface, for links: https://, host, and a path if a proxy adds one. Empty: the local one.`,
  });

/** For the `check` of a configuration. */
export function hostUrlProblems(hostUrl: string): readonly { path: string; rule: string; message: string }[] {
  if (hostUrl === '' || isAddress(hostUrl)) return [];
  return [{ path: 'hostUrl', rule: 'format', message: 'must be an address such as https://api.example.com, or empty' }];
}

/** Without what would end up in the middle of every link. */
function isAddress(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '' && !/[?#\s]/.test(text);
}

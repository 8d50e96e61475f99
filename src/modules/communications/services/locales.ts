/** Languages of templates. */
import { invalid } from '../../../kernel/errors.ts';

/** A tag of a language as browsers and devices name them, such as `pt-BR`. */
export const localePattern = '^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}$';

/** What there is in the requested language, else in its general form (`pt` for `pt-BR`), else nothing. */
export function inLanguage<T>(
  translations: Readonly<Record<string, T>> | null | undefined,
  locale: string | undefined,
): T | undefined {
  if (!translations || locale === undefined) return undefined;
  const byTag = new Map(
    Object.entries(translations).map(([tag, texts]) => [tag.toLowerCase(), texts]),
  );
  const parts = locale.toLowerCase().replaceAll('_', '-').split('-');
  for (let length = parts.length; length > 0; length -= 1) {
    const texts = byTag.get(parts.slice(0, length).join('-'));
    if (texts !== undefined) return texts;
  }
  return undefined;
}

/** Throws 400 for names that are no languages. */
export function requireLocales(translations: Readonly<Record<string, unknown>>): void {
  const tag = new RegExp(localePattern);
  for (const name of Object.keys(translations))
    if (!tag.test(name))
      throw invalid(`translations.${name.slice(0, 20)}`, 'locale', 'must be a language like pt-BR');
}

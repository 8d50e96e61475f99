/** The words of a text, as indexes hold them and `$search` looks for them. Both must say it in the same way. */

/**
 * Characters that are looked into. PostgreSQL refuses more than a megabyte of words, so that a single long text would
 * make every search over its field fail.
 */
export const MAX_SEARCHED = 200_000;

export const wordsOf = (text: string): string => `to_tsvector('simple', left(${text}, ${MAX_SEARCHED}))`;

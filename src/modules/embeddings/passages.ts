/** Long texts in passages, which a model takes at once, and what tells texts apart. */
import { createHash } from 'node:crypto';
import { cutText } from '../../kernel/text.ts';

/** A part of a text, in UTF-16 units. */
export interface Passage {
  readonly starts: number;
  readonly ends: number;
  readonly text: string;
}

/** Equal for equal texts. */
export const digestOf = (text: string): Buffer =>
  createHash('sha256').update(text).digest().subarray(0, 16);

/** A text as passages of at most `length`, cut between words where there are any; a tenth of each is in the next one too. */
export function passagesOf(text: string, length: number): readonly Passage[] {
  const passages: Passage[] = [];
  const overlap = Math.floor(length / 10);
  for (let starts = 0; starts < text.length; ) {
    const ends = endOf(text, starts, length);
    passages.push({ starts, ends, text: text.slice(starts, ends) });
    if (ends === text.length) break;
    starts = afterSpace(text, ends - overlap, ends);
  }
  return passages.filter((passage) => passage.text.trim() !== '');
}

/** Where a passage that begins at `starts` ends: behind the last space of its second half, if there is one. */
function endOf(text: string, starts: number, length: number): number {
  const max = starts + length;
  if (max >= text.length) return text.length;
  for (let at = max; at > starts + length / 2; at--) if (isSpace(text, at - 1)) return at;
  return starts + cutText(text.slice(starts, max), length - 1).length;
}

/** The first place behind a space between two places, or the first of them. */
function afterSpace(text: string, from: number, to: number): number {
  for (let at = from; at < to; at++) if (isSpace(text, at - 1)) return at;
  return text.slice(0, from).isWellFormed() ? from : from + 1;
}

const isSpace = (text: string, at: number): boolean => {
  const unit = text.charCodeAt(at);
  return unit === 32 || (unit >= 9 && unit <= 13);
};

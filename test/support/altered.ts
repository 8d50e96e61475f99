/** The text with another letter at `index` (from the end when negative): never the text itself, whatever it holds by chance. */
export function alteredAt(text: string, index: number): string {
  const at = index < 0 ? text.length + index : index;
  const letter = text[at] === 'A' ? 'B' : 'A';
  return text.slice(0, at) + letter + text.slice(at + 1);
}

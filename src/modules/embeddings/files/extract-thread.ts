/** The thread that reads texts out of files. What it is given is foreign: it has bounds, and ends when it takes too long. */
import { strFromU8, unzipSync } from 'fflate';
import { Parser } from 'htmlparser2';
import { getDocumentProxy } from 'unpdf';
import { giveWay, type Serve, serveCalls } from '../../../kernel/threads/serve-calls.ts';

giveWay();

export type FileKind = 'text' | 'html' | 'pdf' | 'docx';

export interface ExtractInput {
  readonly kind: FileKind;
  readonly bytes: Uint8Array;
  /** Characters that are asked for; what is behind them is left out. */
  readonly length: number;
}

const MAX_PAGES = 500;
/** Bytes of the part of a document that has its text. */
const MAX_PART = 50_000_000;

const decoded = (bytes: Uint8Array): string => {
  const [first, second] = bytes;
  const isWide = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  const encoding = isWide ? (first === 0xff ? 'utf-16le' : 'utf-16be') : 'utf-8';
  return new TextDecoder(encoding).decode(bytes);
};

const hidden = new Set(['script', 'style', 'noscript', 'template', 'svg', 'head']);
const blocks =
  /^(?:p|div|br|li|tr|td|th|h[1-6]|section|article|header|footer|blockquote|pre|title)$/;

/** What somebody reads who looks at the page. */
function htmlText(source: string): string {
  const pieces: string[] = [];
  let depth = 0;
  const parser = new Parser({
    onopentagname(name) {
      if (hidden.has(name)) depth += 1;
      else if (blocks.test(name)) pieces.push('\n');
    },
    onclosetag(name) {
      if (hidden.has(name)) depth -= 1;
      else if (blocks.test(name)) pieces.push('\n');
    },
    ontext(text) {
      if (depth === 0) pieces.push(text);
    },
  });
  parser.end(source);
  return pieces.join('');
}

/** Paragraphs of a Word document: the text of its body, without notes and headers. */
function docxText(bytes: Uint8Array): string {
  const part = 'word/document.xml';
  const files = unzipSync(bytes, {
    filter: ({ name, originalSize }) => name === part && originalSize <= MAX_PART,
  });
  const xml = files[part];
  if (!xml) throw new Error('The document has no text that can be read');
  const pieces: string[] = [];
  let inText = false;
  const parser = new Parser(
    {
      onopentagname(name) {
        if (name === 'w:t') inText = true;
        else if (name === 'w:tab') pieces.push('\t');
        else if (name === 'w:br') pieces.push('\n');
      },
      onclosetag(name) {
        if (name === 'w:t') inText = false;
        else if (name === 'w:p') pieces.push('\n');
      },
      ontext(text) {
        if (inText) pieces.push(text);
      },
    },
    { xmlMode: true },
  );
  parser.end(strFromU8(xml));
  return pieces.join('');
}

async function pdfText(bytes: Uint8Array, length: number): Promise<string> {
  const pdf = await getDocumentProxy(bytes, { verbosity: 0 });
  let text = '';
  for (let number = 1; number <= Math.min(pdf.numPages, MAX_PAGES); number += 1) {
    const page = await pdf.getPage(number);
    const { items } = await page.getTextContent();
    for (const item of items) if ('str' in item) text += item.str + (item.hasEOL ? '\n' : '');
    text += '\n';
    page.cleanup();
    if (text.length >= length) break;
  }
  await pdf.loadingTask.destroy();
  return text;
}

const extract: Serve = async (input) => {
  const { kind, bytes, length } = input as ExtractInput;
  const text = {
    text: () => decoded(bytes),
    html: () => htmlText(decoded(bytes)),
    docx: () => docxText(bytes),
    pdf: () => pdfText(bytes, length),
  }[kind];
  return { result: (await text()).slice(0, length) };
};

serveCalls(new Map([['extract', extract]]));

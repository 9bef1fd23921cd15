// Package markup converts the Markdown of a notification to what chats can show: text with
// styles, the markup of a service, or plain text. It splits texts to the limits of a service
// and escapes plain texts for services that read any text as markup.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package markup
